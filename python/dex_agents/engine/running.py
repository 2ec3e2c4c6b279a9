"""An engine on an event loop, from its database to its listener."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Generator

import msgspec
from google.protobuf.message import DecodeError

from dex_agents.engine.address import ListenAddress, claim_socket_path
from dex_agents.engine.archive import Archive
from dex_agents.engine.clock import Clock
from dex_agents.engine.committer import Committer
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.inspection import Inspection
from dex_agents.engine.lock import DatabaseLock
from dex_agents.engine.options import EngineOptions
from dex_agents.engine.retention import Retention
from dex_agents.engine.service import FlowService, build_methods
from dex_agents.engine.stats import STATS_PATH, EngineStats
from dex_agents.engine.store.writer import Folded, StoreWriter
from dex_agents.engine.streams import Streams
from dex_agents.engine.transport.listener import Listener
from dex_agents.engine.values import BlobNumbers
from dex_agents.engine.worker_streams import WorkerStreams
from dex_agents.errors import EngineAddressError, EngineDatabaseError

STOP_GRACE_SECONDS = 0.1
"""How long calls that are about to be answered have when the engine stops; long polls are cut off."""

_LOGGER = logging.getLogger(__name__)


class RunningEngine:
    """An engine on the present event loop, from `open` to `close`.

    Attributes:
        failed: Set when it cannot go on.
        failure: Why, or `None`.
    """

    def __init__(self, path: str, clock: Clock, options: EngineOptions) -> None:
        """Open the database.

        Raises:
            EngineDatabaseError: The file is unusable, foreign, damaged or of a newer version.
            EngineInUseError: Another engine uses it.
        """
        self.failed = asyncio.Event()
        self.failure: BaseException | None = None
        self._listener: Listener | None = None
        with contextlib.ExitStack() as opened, _damage_reported(path):
            self._lock = DatabaseLock(path)
            opened.callback(self._lock.release)
            writer = StoreWriter(path, options.synchronous, options.history_events)
            opened.callback(writer.close)
            self._archive = Archive(path)
            opened.callback(self._archive.close)
            reader = self._archive.reader
            numbers = BlobNumbers(writer.database_id, writer.last_blob)
            self._streams = Streams(self._archive, reader.load_streams(), reader.load_last_stream_message())
            self._coordinator = Coordinator(
                clock,
                self._archive,
                open_committer=lambda release: Committer(
                    writer, release, self._note_folded, self._note_failure, clock
                ),
                on_defect=self._note_defect,
                numbers=numbers,
                index_types=reader.load_index_types(),
                last_run_number=reader.load_last_run_number(),
                runs_in_memory=options.runs_in_memory,
                keeps_history=options.history_events > 0,
            )
            self._active_runs = reader.load_active()
            self._instants = reader.load_instants()
            opened.pop_all()
        self._committer = self._coordinator.units.committer
        self._service = FlowService(self._coordinator, self._streams, self._archive, numbers)
        self._token = options.token
        self._drain_seconds = options.drain.total_seconds()
        self._retention: Retention | None = None
        self._removing: asyncio.Task[None] | None = None
        if options.retention is not None:
            seconds = options.retention.total_seconds()
            self._retention = Retention(
                self._coordinator.units, self._coordinator.runs, self._archive, self._streams, seconds
            )

    async def open(self, address: ListenAddress) -> str:
        """Recover, listen, and return the address to connect to.

        Raises:
            EngineAddressError: The address is taken, or not one of this machine.
        """
        self._committer.start()
        self._coordinator.recover(self._active_runs, self._instants)
        self._active_runs, self._instants = [], {}
        claim_socket_path(address)
        inspection = Inspection(self._coordinator, self._archive)
        methods = build_methods(self._service, inspection, WorkerStreams(self._coordinator, self._streams))
        listener = Listener(methods, self._token)
        stats = EngineStats(self._coordinator, self._archive, listener)
        listener.calls.add(STATS_PATH, stats.open)
        try:
            port = await listener.listen(address)
        except OSError as error:
            raise EngineAddressError(
                address.given, "the address is in use, or is not one of this machine"
            ) from error
        self._listener = listener
        if self._retention is not None:
            self._removing = asyncio.get_running_loop().create_task(self._remove(self._retention))
        return address.build_target(port)

    async def close(self) -> None:
        """Stop serving, commit what is queued, close the database and give the lock back."""
        try:
            if self._removing is not None:
                self._removing.cancel()
                await asyncio.wait({self._removing})
            if self._drain_seconds and not self.failed.is_set():
                await self._coordinator.attempts.dispatcher.drain(self._drain_seconds)
            self._coordinator.stop()
            if self._listener is not None:
                await self._listener.stop(STOP_GRACE_SECONDS)
            await self._committer.stop()
        finally:
            self._archive.close()
            self._lock.release()

    async def _remove(self, retention: Retention) -> None:
        try:
            await retention.keep_removing()
        except Exception as error:  # noqa: BLE001 - there is no caller to tell
            self._note_defect(error)

    def _note_folded(self, folded: Folded) -> None:
        self._coordinator.note_folded(folded)
        self._streams.note_folded(folded)

    def _note_failure(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.failed.set()

    def _note_defect(self, error: Exception) -> None:
        _LOGGER.critical("the engine stops because of a defect in it", exc_info=error)
        self._note_failure(error)


@contextlib.contextmanager
def _damage_reported(path: str) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, DecodeError, msgspec.DecodeError, LookupError, ValueError, TypeError) as error:
        raise EngineDatabaseError(path, f"the database is damaged: {error}") from error
