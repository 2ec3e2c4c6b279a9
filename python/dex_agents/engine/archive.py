"""Reads that are not in memory, on a thread of their own so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError

from dex_agents.engine.failures import data_lost
from dex_agents.engine.history_events import HistoryPage, read_history
from dex_agents.engine.state import Run
from dex_agents.engine.store.reader import Counts, FoundRun, StoreReader, StreamMessageRow
from dex_agents.engine.values import BlobKind

_ResultT = TypeVar("_ResultT")
_LOGGER = logging.getLogger(__name__)


class Archive:
    """A `StoreReader` behind a thread."""

    def __init__(self, path: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="dex-agents-reader")
        self._reader = StoreReader(path)

    @property
    def reader(self) -> StoreReader:
        """The reader itself, for use before the engine serves."""
        return self._reader

    async def load_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID."""
        return await self._run(lambda reader: reader.load_latest(flow_id))

    async def load_by_run_id(self, run_id: str) -> Run | None:
        """Return the run with a run ID."""
        return await self._run(lambda reader: reader.load_by_run_id(run_id))

    async def load_runs(self, numbers: Sequence[int]) -> list[Run]:
        """Return the runs with some numbers, as far as they exist."""
        return await self._run(lambda reader: reader.load_runs(numbers))

    async def load_closed_before(self, instant: float, limit: int) -> list[int]:
        """Return the numbers of runs that closed before a Unix time, the longest closed first."""
        return await self._run(lambda reader: reader.load_closed_before(instant, limit))

    async def load_history(self, run: int, run_attempt: int, start: int, limit: int) -> HistoryPage:
        """Return events of a run from a position on."""
        return await self._run(
            lambda reader: read_history(reader.load_history(run), run, run_attempt, start, limit)
        )

    async def count(self) -> Counts:
        """Count what the database holds."""
        return await self._run(lambda reader: reader.count())

    async def load_blobs(self, wanted: Sequence[tuple[BlobKind, int]]) -> list[bytes | None]:
        """Return the payload of every blob, or `None` for one that does not exist."""
        return await self._run(lambda reader: [reader.load_blob(kind, number) for kind, number in wanted])

    async def load_after(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        """Return the first messages of a stream after a position, oldest first."""
        return await self._run(lambda reader: reader.load_stream_after(stream, sequence, limit))

    async def load_before(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        """Return the last messages of a stream before a position, newest first."""
        return await self._run(lambda reader: reader.load_stream_before(stream, sequence, limit))

    async def has_message(self, stream: int, sequence: int) -> bool:
        """Tell whether a message of a stream is still retained."""
        return await self._run(lambda reader: reader.has_stream_message(stream, sequence))

    async def search(self, statement: str, arguments: tuple[str | int | float | None, ...]) -> list[FoundRun]:
        """Run a compiled search."""
        return await self._run(lambda reader: reader.search(statement, arguments))

    def close(self) -> None:
        """Wait for running reads and close the connection."""
        self._executor.shutdown()
        self._reader.close()

    async def _run(self, read: Callable[[StoreReader], _ResultT]) -> _ResultT:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, read, self._reader)
        except (
            sqlite3.DatabaseError,
            DecodeError,
            msgspec.DecodeError,
            LookupError,
            ValueError,
            TypeError,
        ) as error:
            _LOGGER.exception("what was read from the database is damaged")
            raise data_lost(f"the database is damaged: {error}") from error
