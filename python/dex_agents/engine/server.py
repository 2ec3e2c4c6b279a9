"""Start and stop: lock, database, recovery, listener, and the same in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Self

from google.protobuf.message import DecodeError

from dex_agents.engine.address import (
    ListenAddress,
    claim_socket_path,
    create_private_address,
    parse_address,
)
from dex_agents.engine.archive import Archive
from dex_agents.engine.clock import Clock, SystemClock
from dex_agents.engine.committer import Committer
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.lock import DatabaseLock
from dex_agents.engine.runs import RUNS_IN_MEMORY
from dex_agents.engine.service import FlowService, build_methods
from dex_agents.engine.store.database import Synchronous, resolve_path
from dex_agents.engine.store.writer import Folded, StoreWriter
from dex_agents.engine.streams import Streams
from dex_agents.engine.transport.listener import Listener
from dex_agents.engine.values import BlobNumbers
from dex_agents.engine.worker_streams import WorkerStreams
from dex_agents.errors import EngineAddressError, EngineDatabaseError, EngineError

STOP_GRACE_SECONDS = 0.1
"""How long calls that are about to be answered have when the engine stops; long polls are cut off."""

_LOGGER = logging.getLogger(__name__)


class _RunningEngine:
    """An engine on the present event loop, from `open` to `close`."""

    def __init__(self, path: str, synchronous: Synchronous, clock: Clock, runs_in_memory: int) -> None:
        self.failed = asyncio.Event()
        self.failure: BaseException | None = None
        self._listener: Listener | None = None
        with contextlib.ExitStack() as opened, _damage_reported(path):
            self._lock = DatabaseLock(path)
            opened.callback(self._lock.release)
            writer = StoreWriter(path, synchronous)
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
                    writer, release, self._note_folded, self._note_failure
                ),
                on_defect=self._note_defect,
                numbers=numbers,
                index_types=reader.load_index_types(),
                last_run_number=reader.load_last_run_number(),
                runs_in_memory=runs_in_memory,
            )
            self._active_runs = reader.load_active()
            self._instants = reader.load_instants()
            opened.pop_all()
        self._committer = self._coordinator.units.committer
        self._service = FlowService(self._coordinator, self._streams, self._archive, numbers)

    async def open(self, address: ListenAddress) -> str:
        """Recover, listen, and return the address to connect to."""
        self._committer.start()
        self._coordinator.recover(self._active_runs, self._instants)
        self._active_runs, self._instants = [], {}
        claim_socket_path(address)
        listener = Listener(build_methods(self._service, WorkerStreams(self._coordinator, self._streams)))
        try:
            port = await listener.listen(address)
        except OSError as error:
            raise EngineAddressError(
                address.given, "the address is in use, or is not one of this machine"
            ) from error
        self._listener = listener
        return address.build_target(port)

    async def close(self) -> None:
        """Stop serving, commit what is queued, close the database and give the lock back."""
        try:
            self._coordinator.stop()
            if self._listener is not None:
                await self._listener.stop(STOP_GRACE_SECONDS)
            await self._committer.stop()
        finally:
            self._archive.close()
            self._lock.release()

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
    except (sqlite3.Error, DecodeError, LookupError, ValueError, TypeError) as error:
        raise EngineDatabaseError(path, f"the database is damaged: {error}") from error


class LocalEngine:
    """A Dex engine in this process, on a thread and an event loop of its own, with its state in one SQLite
    file.

    Unmodified `dex.AsyncClient` and `dex.AsyncWorker` (pull mode) objects connect to `server_address`.

    ::

        async with LocalEngine("agents.db") as engine:
            client = AsyncClient(registry, cache, ClientOptions(server_address=engine.server_address, ...))

    Durability:
        What a caller was told survives the end of this process, and with `synchronous="full"` also a loss of
        power. A Step attempt that was running is repeated, except where its retry policy has a limit: such an
        attempt is durably marked before a Worker sees it, and a marked one counts as made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        listen: str | None = None,
        synchronous: Synchronous = "full",
        runs_in_memory: int = RUNS_IN_MEMORY,
    ) -> None:
        """Describe an engine; nothing is opened before `start`.

        Args:
            path: The database file; created if it does not exist. One engine at a time may use it.
            listen: `HOST:PORT` (port 0 lets the system choose) or `unix:/PATH`; by default a unix socket in a
                new folder that only this user may enter. There is no authentication: whoever reaches the
                address is served, so think before naming a host that is not a loopback one.
            synchronous: `full` syncs every commit to the disk, `normal` leaves that to the operating system.
            runs_in_memory: Runs that stay in memory for their use alone, the longest unused first to go;
                about 8 KB each. A run with a Step to make, a call or a waiter is in memory beyond that
                number. The others are read from the database when something happens to them.

        Raises:
            ValueError: `synchronous` is neither `full` nor `normal`, or `runs_in_memory` is negative.
        """
        if synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', not {synchronous!r}")
        _require_runs_in_memory(runs_in_memory)
        self._runs_in_memory = runs_in_memory
        self._path = path
        self._listen = listen
        self._synchronous: Synchronous = synchronous
        self._clock: Clock = SystemClock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_stop_requested = False
        self._server_address: str | None = None
        self._failure: BaseException | None = None

    @property
    def server_address(self) -> str:
        """The address for `ClientOptions` and `WorkerOptions`.

        Raises:
            EngineError: The engine is not running.
        """
        if self._server_address is None:
            raise EngineError("the engine is not running")
        return self._server_address

    async def start(self) -> None:
        """Open the database, recover its runs and serve.

        Raises:
            EngineDatabaseError: The file is unusable, foreign, damaged or of a newer version.
            EngineInUseError: Another engine uses it.
            EngineAddressError: The address is malformed or taken.
            EngineError: It is running already.
        """
        if self._thread is not None:
            raise EngineError("the engine is running already")
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[str] = loop.create_future()

        def report(address: str | None, error: BaseException | None) -> None:
            if ready.done():
                return
            if error is not None:
                ready.set_exception(error)
            else:
                ready.set_result(address or "")

        def work() -> None:
            try:
                asyncio.run(self._serve(lambda address: loop.call_soon_threadsafe(report, address, None)))
            except BaseException as error:  # noqa: BLE001 - handed to whoever starts or stops the engine
                self._failure = error
                if not loop.is_closed():
                    loop.call_soon_threadsafe(report, None, error)

        self._failure = None
        self._is_stop_requested = False
        self._thread = threading.Thread(target=work, name="dex-agents-engine", daemon=True)
        self._thread.start()
        try:
            self._server_address = await ready
        except BaseException:
            await self._join()
            raise

    async def stop(self) -> None:
        """Stop serving and close the database. Does nothing if the engine is not running.

        Raises:
            EngineError: The engine had stopped by itself because it could not write its database.
        """
        if self._thread is None:
            return
        await self._join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise EngineError(f"the engine had stopped: {failure}") from failure

    async def __aenter__(self) -> Self:
        """Start the engine."""
        await self.start()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the engine."""
        await self.stop()

    async def _serve(self, on_ready: Callable[[str], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        if self._is_stop_requested:
            return
        await serve(
            self._path,
            listen=self._listen,
            synchronous=self._synchronous,
            runs_in_memory=self._runs_in_memory,
            on_ready=on_ready,
            until=self._stop,
            clock=self._clock,
        )

    async def _join(self) -> None:
        thread, self._thread = self._thread, None
        self._server_address = None
        if thread is None:
            return
        # The thread may not have come to its event yet: it looks at this after it made one.
        self._is_stop_requested = True
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                _LOGGER.debug("the engine stopped at the same moment")
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        self._loop = self._stop = None


async def serve(
    path: str | os.PathLike[str],
    *,
    listen: str | None = None,
    synchronous: Synchronous = "full",
    runs_in_memory: int = RUNS_IN_MEMORY,
    on_ready: Callable[[str], object] | None = None,
    until: asyncio.Event | None = None,
    clock: Clock | None = None,
) -> None:
    """Run an engine on the present event loop; the form for a process of its own.

    Args:
        path: The database file, as for `LocalEngine`.
        listen: The address, as for `LocalEngine`.
        synchronous: As for `LocalEngine`.
        runs_in_memory: As for `LocalEngine`.
        on_ready: Called with the address once clients can connect.
        until: Ends the engine when it is set; without it only cancellation does.
        clock: The time; by default the machine's.

    Raises:
        EngineDatabaseError: The file is unusable, foreign, damaged or of a newer version.
        EngineInUseError: Another engine uses it.
        EngineAddressError: The address is malformed or taken.
        EngineError: The database could not be written any more, or the engine met a defect of its own.

    Durability:
        As for `LocalEngine`. When a commit fails the engine ends rather than go on from what is only in
        memory.
    """
    _require_runs_in_memory(runs_in_memory)
    folder: Path | None = None
    if listen is None:
        address, folder = create_private_address()
    else:
        address = parse_address(listen)
    try:
        engine = _RunningEngine(resolve_path(path), synchronous, clock or SystemClock(), runs_in_memory)
        try:
            target = await engine.open(address)
            if on_ready is not None:
                on_ready(target)
            await _wait_for_end(engine, until or asyncio.Event())
        finally:
            await engine.close()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    if engine.failure is not None:
        raise EngineError(f"it could not go on: {engine.failure}") from engine.failure


def _require_runs_in_memory(count: int) -> None:
    if count < 0:
        raise ValueError(f"runs_in_memory must not be negative, not {count}")


async def _wait_for_end(engine: _RunningEngine, until: asyncio.Event) -> None:
    stopped = asyncio.ensure_future(until.wait())
    failed = asyncio.ensure_future(engine.failed.wait())
    try:
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        failed.cancel()
