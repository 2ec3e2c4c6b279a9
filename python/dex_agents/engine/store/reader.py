"""The reading side: rows of the state tables back into runs, blobs and stream messages.

It sees what has been folded. The engine therefore drops nothing from memory that is not folded yet, and asks
for a fold before a search.
"""

# ruff: noqa: S608 - names in statements are constants of this room, values are parameters

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import NO_TIMERS, decode_locals, decode_timers
from dex_agents.engine.state import (
    MESSAGE_COUNTER,
    IndexEntry,
    Message,
    Run,
    RunChain,
    StepExecution,
    TimerState,
)
from dex_agents.engine.store.database import connect_reader
from dex_agents.engine.values import BlobKind, read_blob_id


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream and the group whose capacity it shares.

    Attributes:
        stream: Its number.
        group: Number of its group.
        flow_type: Flow type of the group.
        name: Name of the group.
        capacity: Budget of the group in bytes.
        flow_id: The Flow ID that the stream belongs to, or `None` for a group without streams.
    """

    stream: int
    group: int
    flow_type: str
    name: str
    capacity: int
    flow_id: str


@dataclass(frozen=True, slots=True)
class StreamMessageRow:
    """A retained stream message.

    Attributes:
        sequence: Its position, unique in the database.
        created_at: Unix time in seconds.
        source: What wrote it.
        value: A serialised `Value`.
    """

    sequence: int
    created_at: float
    source: str
    value: bytes


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that a search found.

    Attributes:
        number: Its number.
        flow_id: Its Flow ID.
        run_id: Its run ID.
        flow_type: Its Flow type.
        status: Its status.
        started_at: Unix time in seconds.
        closed_at: Unix time in seconds, or `None` while it runs.
        indexed: Search keys and serialised values.
        position: What it was ordered by, from which the next page starts.
    """

    number: int
    flow_id: str
    run_id: str
    flow_type: str
    status: int
    started_at: float
    closed_at: float | None
    indexed: tuple[tuple[str, bytes], ...]
    position: str | int | float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What a database holds.

    Attributes:
        open_runs: Runs that are open.
        closed_runs: Runs that are closed.
        waiting: Waiting executions by Step type.
        database_bytes: Size of the file.
    """

    open_runs: int
    closed_runs: int
    waiting: dict[str, int]
    database_bytes: int


_RUN_COLUMNS = (
    "run, run_id, flow_id, flow_type, request_id, started_at, config, timeout_at, timeout_policy,"
    " timeout_options, status, closed_at, error_type, error_message, is_completing"
)


class StoreReader:
    """Owns a read-only connection. Every method belongs to one thread at a time."""

    def __init__(self, path: str) -> None:
        """Open a connection.

        Raises:
            sqlite3.Error: The file cannot be opened.
        """
        self._connection = connect_reader(path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def load_active(self) -> list[Run]:
        """Return every open run in which an attempt is due or running, oldest first."""
        return self._load(
            "status = 1 AND run IN (SELECT s.run FROM step s LEFT JOIN step_progress p USING (run, number)"
            " WHERE p.phase IS NOT 'waiting')",
            (),
        )

    def load_runs(self, numbers: Sequence[int]) -> list[Run]:
        """Return the runs with some numbers, as far as they exist, oldest first."""
        return self._load(f"run IN ({', '.join('?' * len(numbers))})", tuple(numbers))

    def load_closed_before(self, instant: float, limit: int) -> list[int]:
        """Return the numbers of runs that closed before a Unix time, the longest closed first."""
        rows = self._connection.execute(
            "SELECT run FROM run WHERE closed_at IS NOT NULL AND closed_at < ? ORDER BY closed_at LIMIT ?",
            (instant, limit),
        )
        return [number for (number,) in rows]

    def count(self) -> Counts:
        """Count what the database holds."""
        statuses = dict(self._connection.execute("SELECT status = 1, count(*) FROM run GROUP BY 1"))
        waiting = dict(
            self._connection.execute(
                "SELECT s.step_type, count(*) FROM step s JOIN step_progress p USING (run, number)"
                " WHERE p.phase = 'waiting' GROUP BY 1 ORDER BY 1"
            )
        )
        size = self._scalar("PRAGMA page_count") * self._scalar("PRAGMA page_size")
        return Counts(statuses.get(1, 0), statuses.get(0, 0), waiting, size)

    def load_instants(self) -> dict[tuple[int, int], float]:
        """Return the next instant of every open run (as execution 0) and of every execution that waits."""
        instants = {
            (run, 0): timeout_at
            for run, timeout_at in self._connection.execute(
                "SELECT run, timeout_at FROM run WHERE status = 1 AND timeout_at IS NOT NULL"
            )
        }
        for run, number, encoded in self._connection.execute(
            "SELECT run, number, timers FROM step_progress WHERE phase = 'waiting' AND timers <> ?",
            (NO_TIMERS,),
        ):
            pending = [timer.fire_at for timer in _read_timers(encoded) if not timer.is_over]
            if pending:
                instants[run, number] = min(pending)
        return instants

    def load_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID."""
        runs = self._load("run = (SELECT max(run) FROM run WHERE flow_id = ?)", (flow_id,))
        return runs[0] if runs else None

    def load_by_run_id(self, run_id: str) -> Run | None:
        """Return the run with a run ID."""
        runs = self._load("run_id = ?", (run_id,))
        return runs[0] if runs else None

    def load_last_run_number(self) -> int:
        """Return the highest run number in use."""
        return self._scalar("SELECT coalesce(max(run), 0) FROM run")

    def load_history(self, run: int) -> Iterator[bytes]:
        """Return the units that tell of the events of a run, oldest first, folded or not.

        They are of one moment, and nobody else may read until the last one was taken.
        """
        self._connection.execute("BEGIN")
        try:
            for (operations,) in self._connection.execute(
                "SELECT coalesce(h.operations, j.operations)"
                " FROM history h LEFT JOIN journal j USING (sequence)"
                " WHERE h.run = ? ORDER BY h.event, h.sequence",
                (run,),
            ):
                yield operations
            for (operations,) in self._connection.execute(
                "SELECT operations FROM journal"
                " WHERE sequence > (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'folded')"
                " ORDER BY sequence"
            ):
                yield operations
        finally:
            self._connection.rollback()

    def load_index_types(self) -> dict[str, int]:
        """Return the search keys and their types."""
        return dict(self._connection.execute("SELECT key, type FROM index_type"))

    def load_blob(self, kind: BlobKind, number: int) -> bytes | None:
        """Return the payload of a blob, or `None` when there is none of this kind."""
        row = self._connection.execute(
            "SELECT payload FROM blob WHERE number = ? AND kind = ?", (number, kind)
        ).fetchone()
        return None if row is None else row[0]

    def has_blob(self, kind: BlobKind, number: int) -> bool:
        """Tell whether there is a blob of this kind."""
        row = self._connection.execute(
            "SELECT 1 FROM blob WHERE number = ? AND kind = ?", (number, kind)
        ).fetchone()
        return row is not None

    def load_streams(self) -> list[StreamRow]:
        """Return every stream."""
        rows = self._connection.execute(
            "SELECT s.stream, g.stream_group, g.flow_type, g.name, g.capacity, s.flow_id"
            " FROM stream_group g JOIN stream s USING (stream_group) ORDER BY s.stream"
        )
        return [StreamRow(*row) for row in rows]

    def load_last_stream_message(self) -> int:
        """Return the highest stream sequence ever used."""
        return self._scalar(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'stream_message'), 0)"
        )

    def load_stream_after(self, stream: int, sequence: int, limit: int) -> list[StreamMessageRow]:
        """Return the first messages of a stream after a position, oldest first."""
        rows = self._connection.execute(
            "SELECT sequence, created_at, source, value FROM stream_message"
            " WHERE stream = ? AND sequence > ? ORDER BY sequence LIMIT ?",
            (stream, sequence, limit),
        )
        return [StreamMessageRow(*row) for row in rows]

    def load_stream_before(self, stream: int, sequence: int, limit: int) -> list[StreamMessageRow]:
        """Return the last messages of a stream before a position, newest first."""
        rows = self._connection.execute(
            "SELECT sequence, created_at, source, value FROM stream_message"
            " WHERE stream = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
            (stream, sequence, limit),
        )
        return [StreamMessageRow(*row) for row in rows]

    def has_stream_message(self, stream: int, sequence: int) -> bool:
        """Tell whether a message of a stream is still retained."""
        row = self._connection.execute(
            "SELECT 1 FROM stream_message WHERE stream = ? AND sequence = ?", (stream, sequence)
        ).fetchone()
        return row is not None

    def search(self, statement: str, arguments: tuple[str | int | float | None, ...]) -> list[FoundRun]:
        """Run a compiled search; its order columns follow the seven columns of a run."""
        found: list[FoundRun] = []
        for row in self._connection.execute(statement, arguments).fetchall():
            indexed = self._connection.execute(
                "SELECT key, value FROM index_value WHERE run = ? AND position = 0 ORDER BY key", (row[0],)
            ).fetchall()
            found.append(
                FoundRun(row[0], row[1], row[2], row[3], row[4], row[5], row[6], tuple(indexed), row[7])
            )
        return found

    def _scalar(self, statement: str) -> int:
        value: int = self._connection.execute(statement).fetchone()[0]
        return value

    def _load(self, condition: str, arguments: tuple[str | int, ...]) -> list[Run]:
        # A fold may happen between two statements: one snapshot for all tables.
        self._connection.execute("BEGIN")
        try:
            return self._load_in_snapshot(condition, arguments)
        finally:
            self._connection.rollback()

    def _load_in_snapshot(self, condition: str, arguments: tuple[str | int, ...]) -> list[Run]:
        rows = self._connection.execute(
            f"SELECT {_RUN_COLUMNS} FROM run WHERE {condition} ORDER BY run",
            arguments,
        )
        runs: dict[int, Run] = {}
        for row in rows:
            runs[row[0]] = Run(
                number=row[0],
                run_id=row[1],
                flow_id=row[2],
                flow_type=row[3],
                request_id=row[4],
                started_at=row[5],
                config=pb.FlowConfig.FromString(row[6]),
                timeout_at=row[7],
                timeout_policy=row[8],
                timeout_options=pb.StepOptions.FromString(row[9]),
                status=row[10],
                closed_at=row[11],
                error_type=row[12],
                error_message=row[13],
                is_completing=bool(row[14]),
            )
        if not runs:
            return []

        scope = f"run IN (SELECT run FROM run WHERE {condition})"
        self._load_data(runs, scope, arguments)
        self._load_steps(runs, scope, arguments)
        return list(runs.values())

    def _load_data(self, runs: dict[int, Run], scope: str, arguments: tuple[str | int, ...]) -> None:
        select = self._connection.execute
        for table, is_secret in (("attribute", False), ("secret_attribute", True)):
            for number, key, value in select(f"SELECT run, key, value FROM {table} WHERE {scope}", arguments):
                runs[number].put_attribute(key, pb.Value.FromString(value), is_secret=is_secret)
        for number, key, position, attribute, shown in select(
            f"SELECT run, key, position, attribute, value FROM index_value WHERE {scope} ORDER BY position",
            arguments,
        ):
            if position == 0:
                blob_id = read_blob_id(pb.Value.FromString(shown))
                runs[number].indexes[key] = IndexEntry(attribute, 1, blob_id)
            else:
                runs[number].indexes[key].rows = position + 1
        for number, channel, sequence, message_id, value in select(
            f"SELECT run, channel, sequence, message_id, value FROM channel_message WHERE {scope}"
            " ORDER BY run, channel, sequence",
            arguments,
        ):
            message = Message(sequence, message_id, pb.Value.FromString(value))
            runs[number].channels.setdefault(channel, deque()).append(message)
        for number, event in select(
            f"SELECT run, max(event) FROM history WHERE {scope} GROUP BY run", arguments
        ):
            runs[number].last_event = event
        for number, attempt, first_run_id, begun_at, request in select(
            f"SELECT run, attempt, first_run_id, begun_at, request FROM run_chain WHERE {scope}", arguments
        ):
            start = None if request is None else pb.StartFlowRequest.FromString(request)
            runs[number].chain = RunChain(attempt, first_run_id, begun_at, start)
        for number, output in select(
            f"SELECT run, output FROM output WHERE {scope} ORDER BY run, position",
            arguments,
        ):
            runs[number].outputs.append(pb.StepCompletionOutput.FromString(output))

    def _load_steps(self, runs: dict[int, Run], scope: str, arguments: tuple[str | int, ...]) -> None:
        select = self._connection.execute
        for number, name, value in select(f"SELECT run, name, value FROM counter WHERE {scope}", arguments):
            if name == MESSAGE_COUNTER:
                runs[number].last_message = value
            else:
                runs[number].started_counts[name] = value
                runs[number].last_execution += value
        for number, execution_number, execution_id, due_at, movement in select(
            f"SELECT run, number, execution_id, due_at, movement FROM step WHERE {scope}"
            " ORDER BY run, number",
            arguments,
        ):
            parsed = pb.StepMovement.FromString(movement)
            runs[number].executions[execution_number] = StepExecution(
                execution_number,
                execution_id,
                parsed,
                "execute" if parsed.step_options.skip_wait_for else "wait_for",
                first_attempt_at=due_at,
                due_at=due_at,
            )
        for row in select(
            "SELECT run, number, phase, attempt, is_started, first_attempt_at, due_at, condition, timers,"
            f" locals, results, heartbeat FROM step_progress WHERE {scope}",
            arguments,
        ):
            execution = runs[row[0]].executions[row[1]]
            execution.phase = row[2]
            execution.attempt = row[3]
            execution.is_started = bool(row[4])
            execution.first_attempt_at, execution.due_at = row[5], row[6]
            execution.condition = None if row[7] is None else pb.WaitingCondition.FromString(row[7])
            execution.timers = _read_timers(row[8])
            execution.step_locals = {local.key: local for local in decode_locals(row[9])}
            execution.results = None if row[10] is None else pb.ConditionResults.FromString(row[10])
            execution.heartbeat = None if row[11] is None else pb.Value.FromString(row[11])
            execution.has_progress_row = True
        for number, execution_number, failure in select(
            f"SELECT run, number, failure FROM step_failure WHERE {scope}", arguments
        ):
            last_failure = pb.StepMethodFailure.FromString(failure)
            runs[number].executions[execution_number].last_failure = last_failure


def _read_timers(encoded: bytes) -> list[TimerState]:
    return [
        TimerState(fire_at, cast("pb.InternalTimerStatus", status))
        for fire_at, status in decode_timers(encoded)
    ]
