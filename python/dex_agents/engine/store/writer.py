"""The writing side: append units to the journal, fold them into the state tables, checkpoint.

`append` is the commit path: one statement that dirties the last pages of one table. Everything derived
happens in `fold`, off that path, in a transaction that needs no sync of its own: until it reaches the disk,
the journal rows it consumed are still there.
"""

# ruff: noqa: S608 - names in statements are constants of this room, values are parameters

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from dex_agents.engine.journal import (
    SHAPES,
    Cell,
    Cells,
    Operation,
    Table,
    decode_operations,
    encode_history,
    encode_operations,
)
from dex_agents.engine.store.database import BUSY_TIMEOUT_SECONDS, Synchronous, connect
from dex_agents.engine.values import Blob
from dex_agents.errors import EngineDatabaseError

MAX_ROWS_PER_STATEMENT = 64
"""Units written by one INSERT; a larger group uses several in one transaction."""

PURGE_WAIT_MILLISECONDS = 50
"""How long emptying the log waits for readers, and commits with it."""

GARBAGE_BATCH = 64
"""Blobs deleted at a time: each may be many megabytes, and commits wait meanwhile."""

HISTORY_EVENTS = 1000
"""History events kept a run, the last ones; a unit is kept as a whole, so it may be a few more."""

_EVERY_EVENT = 2**63 - 1

_EVENT = int(Table.EVENT)
_SECRET_ATTRIBUTE = int(Table.SECRET_ATTRIBUTE)
"""Plain numbers: they are compared with every operation that is committed."""

TRIM_BATCH = 1024
"""Stream messages examined at a time when a stream is over its capacity."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold did.

    Attributes:
        sequence: Every unit up to this one is in the state tables.
        trimmed: First retained message of each stream group that lost its oldest messages.
    """

    sequence: int
    trimmed: dict[int, int] = field(default_factory=dict[int, int])


class StoreWriter:
    """Owns the writing connection. Every method belongs to one thread at a time.

    Attributes:
        path: The database file.
        synchronous: Whether commits survive a loss of power.
        database_id: Eight hexadecimal digits, random for each database.
        last_sequence: Journal sequence of the last committed unit.
        last_blob: Highest blob number in use.
        backlog: Committed units that are not folded yet.
    """

    def __init__(self, path: str, synchronous: Synchronous, history_events: int = HISTORY_EVENTS) -> None:
        """Open the database and fold what the last process left in the journal.

        Args:
            path: A path from `resolve_path`.
            synchronous: Whether commits survive a loss of power.
            history_events: Events kept a run; 0 leaves alone what there is.

        Raises:
            EngineDatabaseError: The file is unusable or damaged.
        """
        self.path = path
        self.synchronous: Synchronous = synchronous
        self._connection = connect(path, synchronous)
        self._pending: dict[tuple[int, Cells], Cells | None] = {}
        self._events: dict[int, int] = {}
        self._kept_units: list[tuple[int, int, int]] = []
        self._copied_units: list[tuple[int, int, bytes | None, int]] = []
        self._done_units: list[int] = []
        self._history_events = history_events
        self._group_sizes: dict[int, int] = {}
        self.backlog = 0
        try:
            self.database_id = self._read_meta("database_id")
            self._folded = int(self._read_meta("folded"))
            self.last_sequence = self._folded
            self.last_blob = max(
                self._scalar("SELECT coalesce(max(number), 0) FROM blob"), int(self._read_meta("last_blob"))
            )
            self._load_journal()
            self.fold()
        except (sqlite3.Error, msgspec.DecodeError, ValueError, TypeError, LookupError) as error:
            self._connection.close()
            raise EngineDatabaseError(path, f"the database is damaged: {error}") from error

    def append(self, units: Sequence[tuple[int, Sequence[Operation]]], blobs: Sequence[Blob]) -> None:
        """Commit units: after it returns they survive the end of this process.

        Args:
            units: Sequence and operations of each, in order.
            blobs: The payloads that the units refer to.

        Raises:
            sqlite3.Error: Nothing was committed.
        """
        rows = [(sequence, encode_operations(operations)) for sequence, operations in units]
        execute = self._connection.execute
        if len(rows) <= MAX_ROWS_PER_STATEMENT and not blobs:
            # One statement in autocommit: the interpreter lock is given up and taken back once for a whole
            # group.
            execute(_insert_statement(len(rows)), [cell for row in rows for cell in row])
        else:
            execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(
                    "INSERT INTO blob VALUES (?, ?, ?)",
                    [(blob.number, blob.kind, blob.payload) for blob in blobs if not blob.copied_from],
                )
                self._connection.executemany(
                    "INSERT INTO blob SELECT ?, kind, payload FROM blob WHERE number = ?",
                    [(blob.number, blob.copied_from) for blob in blobs if blob.copied_from],
                )
                self._connection.executemany(_insert_statement(1), rows)
                execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise
        self.last_sequence = rows[-1][0]
        self._note(units)

    def fold(self) -> Folded:
        """Apply every unfolded unit to the state tables; its journal row is history then, or is forgotten.

        Raises:
            sqlite3.Error: Nothing was folded; the journal is complete.
        """
        if not self.backlog:
            return Folded(self._folded)
        with self._unsynced():
            self._apply_history()
            trimmed = self._apply_pending()
            self._connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'folded'", (str(self.last_sequence),)
            )
        self._pending = {}
        self._events = {}
        self._kept_units = []
        self._copied_units = []
        self._done_units = []
        self.backlog = 0
        self._folded = self.last_sequence
        return Folded(self._folded, trimmed)

    def collect_garbage(self, now: float) -> int:
        """Delete some of the blobs that nothing refers to any more, and return how many.

        Raises:
            sqlite3.Error: None was deleted.
        """
        due = self._connection.execute(
            "SELECT number FROM garbage WHERE due_at <= ? ORDER BY due_at LIMIT ?", (now, GARBAGE_BATCH)
        ).fetchall()
        if not due:
            return 0
        with self._unsynced():
            self._connection.execute(
                "UPDATE meta SET value = max(CAST(value AS INTEGER), ?) WHERE name = 'last_blob'",
                (max(number for (number,) in due),),
            )
            self._connection.executemany("DELETE FROM blob WHERE number = ?", due)
            self._connection.executemany("DELETE FROM garbage WHERE number = ?", due)
        return len(due)

    @property
    def log_bytes(self) -> int:
        """Size of the write-ahead log."""
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return 0

    def checkpoint(self) -> None:
        """Copy the log into the database file as far as readers allow, without waiting for them.

        Raises:
            sqlite3.Error: The file system refused.
        """
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def purge_log(self) -> bool:
        """Copy the log into the database file and empty it, so that deleted bytes leave the disk.

        Returns:
            Whether that was possible; a reader in the middle of a query forbids it for the time being.

        Raises:
            sqlite3.Error: The file system refused.
        """
        self._connection.execute(f"PRAGMA busy_timeout={PURGE_WAIT_MILLISECONDS}")
        try:
            (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_SECONDS * 1000)}")
        return not is_busy

    def close(self) -> None:
        """Close the connection; what is not folded waits in the journal for the next start."""
        self._connection.close()

    @contextlib.contextmanager
    def _unsynced(self) -> Generator[None]:
        """Make one transaction of what can be done again if it does not survive a loss of power."""
        is_full = self.synchronous == "full"
        if is_full:
            self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            if is_full:
                self._connection.execute("PRAGMA synchronous=FULL")

    def _load_journal(self) -> None:
        for sequence, row in self._connection.execute(
            "SELECT sequence, operations FROM journal WHERE sequence > ? ORDER BY sequence", (self._folded,)
        ):
            if sequence != self.last_sequence + 1:
                raise ValueError(f"the journal lacks the units between {self.last_sequence} and {sequence}")
            operations = decode_operations(row)
            for table, key, columns in operations:
                shape = SHAPES[Table(table)]
                if len(key) != len(shape.key) or (columns is not None and len(columns) != len(shape.columns)):
                    raise ValueError(f"journal row {sequence} does not fit the table {shape.name}")
            self.last_sequence = sequence
            self._note([(sequence, operations)])

    def _note(self, units: Sequence[tuple[int, Sequence[Operation]]]) -> None:
        pending = self._pending
        for sequence, operations in units:
            events: dict[Cell, Cell] = {}
            has_secret = False
            for table, key, columns in operations:
                if table == _EVENT:
                    events[key[0]] = key[1]
                    continue
                if table == _SECRET_ATTRIBUTE:
                    has_secret = True
                pending[table, key] = columns
            if events:
                self._note_events(sequence, encode_history(operations) if has_secret else None, events)
            else:
                self._done_units.append(sequence)
        self.backlog += len(units)

    def _note_events(self, sequence: int, kept: bytes | None, events: dict[Cell, Cell]) -> None:
        is_copied = kept is not None or len(events) > 1
        for run, event in events.items():
            if isinstance(run, int) and isinstance(event, int):
                self._events[run] = event
                if is_copied:
                    self._copied_units.append((run, event, kept, sequence))
                else:
                    self._kept_units.append((run, event, sequence))

    def _apply_history(self) -> None:
        """Keep the units that tell of events, no more of each run than is wanted, and forget the others."""
        # Many rows a statement: between two steps of one, the interpreter lock changes hands.
        for rows in _split(self._kept_units):
            self._connection.execute(
                f"INSERT INTO history (run, event, sequence) VALUES {', '.join(['(?, ?, ?)'] * len(rows))}",
                [cell for row in rows for cell in row],
            )
        for done in _split(self._done_units):
            self._connection.execute(
                f"DELETE FROM journal WHERE sequence IN ({', '.join('?' * len(done))})", done
            )
        self._connection.executemany(
            "INSERT INTO history (run, event, sequence, operations)"
            " SELECT ?, ?, sequence, coalesce(?, operations) FROM journal WHERE sequence = ?",
            self._copied_units,
        )
        self._connection.executemany(
            "DELETE FROM journal WHERE sequence = ?", [(unit[3],) for unit in self._copied_units]
        )
        kept = self._history_events
        if kept:
            self._delete_history((run, event - kept) for run, event in self._events.items() if event > kept)

    def _delete_history(self, bounds: Iterable[tuple[Cell, int]]) -> None:
        """Delete the events of runs up to a number."""
        for bound in bounds:
            self._connection.execute(
                "DELETE FROM journal WHERE sequence IN"
                " (SELECT sequence FROM history WHERE run = ? AND event <= ?)",
                bound,
            )
            self._connection.execute("DELETE FROM history WHERE run = ? AND event <= ?", bound)

    def _apply_pending(self) -> dict[int, int]:
        puts: dict[int, list[Cells]] = {}
        deletes: dict[int, list[Cells]] = {}
        for (table, key), columns in self._pending.items():
            if columns is None:
                deletes.setdefault(table, []).append(key)
            else:
                puts.setdefault(table, []).append(key + columns)
        for table, rows in deletes.items():
            self._connection.executemany(_DELETES[Table(table)], rows)
        for table, rows in puts.items():
            self._connection.executemany(_PUTS[Table(table)], rows)
        if Table.RUN in deletes:
            self._delete_history((run, _EVERY_EVENT) for (run,) in deletes[Table.RUN])
        if Table.STREAM in deletes:
            # The messages of a stream go with it: naming each of them would be the reader's work.
            self._connection.executemany("DELETE FROM stream_message WHERE stream = ?", deletes[Table.STREAM])
            self._group_sizes.clear()
        return self._trim_streams(puts.get(Table.STREAM_MESSAGE, ()))

    def _trim_streams(self, messages: Sequence[Cells]) -> dict[int, int]:
        added: dict[int, int] = {}
        for row in messages:
            group, size = row[1], row[-1]
            if isinstance(group, int) and isinstance(size, int):
                added[group] = added.get(group, 0) + size
        trimmed: dict[int, int] = {}
        for group, size in added.items():
            total = self._group_sizes.get(group)
            if total is None:
                total = self._scalar(
                    "SELECT coalesce(sum(size), 0) FROM stream_message WHERE stream_group = ?", group
                )
            else:
                total += size
            capacity = self._scalar("SELECT capacity FROM stream_group WHERE stream_group = ?", group)
            first: int | None = None
            while total > capacity:
                rows = self._connection.execute(
                    "SELECT sequence, size FROM stream_message WHERE stream_group = ? ORDER BY sequence"
                    " LIMIT ?",
                    (group, TRIM_BATCH),
                ).fetchall()
                if not rows:
                    break
                last = rows[0][0]
                for sequence, message_size in rows:
                    if total <= capacity:
                        break
                    total -= message_size
                    last = sequence
                self._connection.execute(
                    "DELETE FROM stream_message WHERE stream_group = ? AND sequence <= ?", (group, last)
                )
                first = last + 1
            self._group_sizes[group] = total
            if first is not None:
                trimmed[group] = first
        return trimmed

    def _read_meta(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise ValueError(f"the entry {name!r} is missing")
        value: str = row[0]
        return value

    def _scalar(self, statement: str, *arguments: int) -> int:
        value: int = self._connection.execute(statement, arguments).fetchone()[0]
        return value


_PUTS: dict[Table, str] = {
    table: f"INSERT OR REPLACE INTO {shape.name} ({', '.join(shape.key + shape.columns)})"
    f" VALUES ({', '.join('?' * len(shape.key + shape.columns))})"
    for table, shape in SHAPES.items()
    if table != Table.EVENT
}
_DELETES: dict[Table, str] = {
    table: f"DELETE FROM {shape.name} WHERE {' AND '.join(f'{column} = ?' for column in shape.key)}"
    for table, shape in SHAPES.items()
    if table != Table.EVENT
}


_RowT = TypeVar("_RowT")


def _split(rows: Sequence[_RowT]) -> Iterator[Sequence[_RowT]]:
    """Cut rows into pieces of few different lengths, so that their statements stay prepared."""
    begun = 0
    while begun < len(rows):
        length = 1
        while 2 * length <= min(len(rows) - begun, MAX_ROWS_PER_STATEMENT):
            length *= 2
        yield rows[begun : begun + length]
        begun += length


def _insert_statement(rows: int) -> str:
    return f"INSERT INTO journal VALUES {', '.join(['(?, ?)'] * rows)}"
