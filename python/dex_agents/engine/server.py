"""The engine as programs start it: in this process, or as one of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from dex_agents.engine.address import create_private_address, parse_address
from dex_agents.engine.clock import Clock, SystemClock
from dex_agents.engine.options import EngineOptions
from dex_agents.engine.running import RunningEngine
from dex_agents.engine.runs import RUNS_IN_MEMORY
from dex_agents.engine.store.database import Synchronous, resolve_path
from dex_agents.engine.store.writer import HISTORY_EVENTS
from dex_agents.errors import EngineError

_LOGGER = logging.getLogger(__name__)


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
        retention: timedelta | None = None,
        history_events: int = HISTORY_EVENTS,
        token: str | None = None,
        drain: timedelta = timedelta(0),
    ) -> None:
        """Describe an engine; nothing is opened before `start`.

        Args:
            path: The database file; created if it does not exist. One engine at a time may use it.
            listen: `HOST:PORT` (port 0 lets the system choose) or `unix:/PATH`; by default a unix socket in a
                new folder that only this user may enter. Without a `token` whoever reaches the address is
                served, so think before naming a host that is not a loopback one.
            synchronous: `full` syncs every commit to the disk, `normal` leaves that to the operating system.
            runs_in_memory: Runs that stay in memory for their use alone, the longest unused first to go;
                about 8 KB each. A run with a Step to make, a call or a waiter is in memory beyond that
                number. The others are read from the database when something happens to them.
            retention: How long a run is kept after it closed, at least a second; then it is removed with its
                state, and the streams of its Flow ID with the last run of it. By default runs are kept.
            history_events: History events kept a run, the last ones, for tools that look back
                (`GetHistoryEvents`); they go with their run. The commits they tell of are kept a second time,
                and large values by their ID, which can be loaded as long as the state still has them and for
                ten minutes after. 0 records none.
            token: What clients and Workers must present as a bearer token, in printable ASCII.
            drain: How long a stop lets running Steps and RPCs be answered, while it hands out no more. What
                is running after that counts as lost at the next start; by default nothing is waited for.

        Raises:
            ValueError: An option makes no sense; the message names it.
        """
        self._options = EngineOptions(
            listen=listen,
            synchronous=synchronous,
            runs_in_memory=runs_in_memory,
            retention=retention,
            history_events=history_events,
            token=token,
            drain=drain,
        )
        self._path = path
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
        await _serve(self._path, self._options, on_ready, self._stop, self._clock)

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
    retention: timedelta | None = None,
    history_events: int = HISTORY_EVENTS,
    token: str | None = None,
    drain: timedelta = timedelta(0),
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
        retention: As for `LocalEngine`.
        history_events: As for `LocalEngine`.
        token: As for `LocalEngine`.
        drain: As for `LocalEngine`.
        on_ready: Called with the address once clients can connect.
        until: Ends the engine when it is set; without it only cancellation does.
        clock: The time; by default the machine's.

    Raises:
        ValueError: An option makes no sense; the message names it.
        EngineDatabaseError: The file is unusable, foreign, damaged or of a newer version.
        EngineInUseError: Another engine uses it.
        EngineAddressError: The address is malformed or taken.
        EngineError: The database could not be written any more, or the engine met a defect of its own.

    Durability:
        As for `LocalEngine`. When a commit fails the engine ends rather than go on from what is only in
        memory.
    """
    options = EngineOptions(
        listen=listen,
        synchronous=synchronous,
        runs_in_memory=runs_in_memory,
        retention=retention,
        history_events=history_events,
        token=token,
        drain=drain,
    )
    await _serve(path, options, on_ready, until or asyncio.Event(), clock or SystemClock())


async def _serve(
    path: str | os.PathLike[str],
    options: EngineOptions,
    on_ready: Callable[[str], object] | None,
    until: asyncio.Event,
    clock: Clock,
) -> None:
    folder: Path | None = None
    if options.listen is None:
        address, folder = create_private_address()
    else:
        address = parse_address(options.listen)
    try:
        engine = RunningEngine(resolve_path(path), clock, options)
        try:
            target = await engine.open(address)
            if on_ready is not None:
                on_ready(target)
            await _wait_for_end(engine, until)
        finally:
            await engine.close()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    if engine.failure is not None:
        raise EngineError(f"it could not go on: {engine.failure}") from engine.failure


async def _wait_for_end(engine: RunningEngine, until: asyncio.Event) -> None:
    stopped = asyncio.ensure_future(until.wait())
    failed = asyncio.ensure_future(engine.failed.wait())
    try:
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        failed.cancel()
