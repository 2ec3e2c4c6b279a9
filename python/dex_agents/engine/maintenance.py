"""Work on a database file beside the engine, which may be running: back it up, check it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from dex_agents.engine.history_events import read_history
from dex_agents.engine.journal import decode_operations
from dex_agents.engine.state import Run
from dex_agents.engine.store.database import inspect_database, resolve_path
from dex_agents.engine.store.reader import StoreReader
from dex_agents.engine.values import BlobNumbers, read_blob_id
from dex_agents.errors import EngineDatabaseError

_UNREADABLE = (sqlite3.Error, DecodeError, msgspec.DecodeError, LookupError, ValueError, TypeError)

MAX_PROBLEMS = 100
"""Problems that a check lists; a file with more is not read to its end."""


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """What a check found.

    Attributes:
        schema_version: Version of the tables.
        runs: Runs that were read.
        journal_units: Units that are committed and not folded into the tables yet.
        problems: What is wrong, in words, at most `MAX_PROBLEMS`; empty for a sound database.
    """

    schema_version: int
    runs: int
    journal_units: int
    problems: tuple[str, ...]


def backup_database(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> None:
    """Copy a database as it is at one moment; its engine may be running and goes on meanwhile.

    Args:
        source: The database file.
        destination: The copy; nothing may be there.

    Raises:
        EngineDatabaseError: The source is not a database of ours, or the copy cannot be written.

    Durability:
        Everything that the engine had acknowledged when the call began is in the copy. The destination
        appears complete and synced, or not at all.
    """
    path, target = resolve_path(source), Path(resolve_path(destination))
    inspect_database(path)
    if target.exists():
        raise EngineDatabaseError(str(target), "the file exists; a backup replaces nothing")
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        with (
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
            contextlib.closing(sqlite3.connect(partial)) as copy,
        ):
            # All pages in one step: a copy in several would begin anew with every commit.
            connection.backup(copy, pages=-1)
            # The log is a file of its own; a copy is one file.
            copy.execute("PRAGMA journal_mode=DELETE")
        _sync(partial)
        # A link, unlike a rename, fails if somebody else has made the file meanwhile.
        os.link(partial, target)
        _sync(target.parent)
    except (OSError, sqlite3.Error) as error:
        raise EngineDatabaseError(str(target), f"the backup cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_database(path: str | os.PathLike[str]) -> DatabaseReport:
    """Read a whole database as an engine would, and tell what is wrong with it.

    Its engine may be running. Nothing is written.

    Args:
        path: The database file.

    Raises:
        EngineDatabaseError: The file is not a database of ours, or of a newer version.
    """
    resolved = resolve_path(path)
    version = inspect_database(resolved)
    problems: list[str] = []
    runs = units = 0
    can_read_journal = True
    try:
        with contextlib.closing(sqlite3.connect(f"file:{resolved}?mode=ro", uri=True)) as connection:
            found = connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})").fetchall()
            problems += [text for (text,) in found if text != "ok"]
            for sequence, row in connection.execute(
                "SELECT sequence, operations FROM journal WHERE sequence >"
                " (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'folded')"
            ):
                units += 1
                try:
                    decode_operations(row)
                except (msgspec.DecodeError, TypeError) as error:
                    problems.append(f"journal row {sequence} cannot be read: {error}")
                    can_read_journal = False
            numbers = [number for (number,) in connection.execute("SELECT run FROM run ORDER BY run")]
            (database_id,) = connection.execute(
                "SELECT value FROM meta WHERE name = 'database_id'"
            ).fetchone()
        reader = StoreReader(resolved)
        try:
            for number in numbers:
                if len(problems) >= MAX_PROBLEMS:
                    break
                runs += 1
                found_in_run = list(_check_run(reader, number, BlobNumbers(database_id, 0)))
                if can_read_journal and not found_in_run:
                    found_in_run += _check_history(reader, number)
                problems += found_in_run
        finally:
            reader.close()
    except (sqlite3.Error, TypeError) as error:
        problems.append(str(error))
    return DatabaseReport(version, runs, units, tuple(problems[:MAX_PROBLEMS]))


def _check_run(reader: StoreReader, number: int, numbers: BlobNumbers) -> Iterator[str]:
    try:
        for run in reader.load_runs([number]):
            for blob_id in _list_blobs(run):
                parsed = numbers.parse_id(blob_id)
                # A running engine may overwrite the value meanwhile, but its blob stays for some minutes.
                if parsed is None or not reader.has_blob(*parsed):
                    yield f"run {number} ({run.flow_id}): the blob {blob_id} is missing"
    except _UNREADABLE as error:
        yield f"run {number} cannot be read: {type(error).__name__}: {error}"


def _check_history(reader: StoreReader, number: int) -> Iterator[str]:
    try:
        events = read_history(reader.load_history(number), number, 1, 1, sys.maxsize).events
    except _UNREADABLE as error:
        yield f"run {number}: an event cannot be read: {type(error).__name__}: {error}"
        return
    for previous, event in pairwise(events):
        if event.event_id != previous.event_id + 1:
            yield f"run {number}: the event {previous.event_id + 1} is missing"


def _list_blobs(run: Run) -> Iterator[str]:
    values = [attribute.blob_id for part in (run.plain, *run.maps.values()) for attribute in part.values()]
    values += [entry.blob_id for entry in run.indexes.values()]
    values += [read_blob_id(message.value) for waiting in run.channels.values() for message in waiting]
    values += [read_blob_id(output.completed_step_output) for output in run.outputs]
    for execution in run.executions.values():
        values.append(read_blob_id(execution.movement.step_input))
        values += [read_blob_id(local.value) for local in execution.step_locals.values()]
        if execution.heartbeat is not None:
            values.append(read_blob_id(execution.heartbeat))
        if execution.results is not None:
            values += [
                read_blob_id(value) for result in execution.results.channel_results for value in result.values
            ]
    return (value for value in values if value)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
