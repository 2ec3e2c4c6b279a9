"""A Worker for session Flows, as an async context."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import grpc
from dex import AsyncWorker, PullWorkerOptions, WorkerOptions

from dex_agents.codecs.attributes import build_session_registry
from dex_agents.errors import EngineUnreachableError, InvalidInputError
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.flow import AgentSessionFlow

__all__ = ["AgentWorker"]

_IDLE_STREAMS: Final = 16
"""Streams kept open to the engine for each Flow type. With fewer the SDK opens and closes one for nearly
every task, which costs more than the task; with many more it spends its time counting them."""


class AgentWorker:
    """Runs the Steps of session Flows while the block is entered.

    Any number of Workers may serve the same Flow type; the engine spreads the sessions' Steps over them, and
    takes back what a dead one held::

        async with AgentWorker(flow, server_address=engine.server_address):
            ...

    An application with Flows of other kinds builds a `dex.AsyncWorker` itself, from `build_session_registry`.
    """

    def __init__(
        self,
        *flows: AgentSessionFlow,
        server_address: str,
        max_concurrent_tasks: int = 32,
        drain_timeout: timedelta = timedelta(seconds=10),
        ready_timeout: timedelta = timedelta(seconds=30),
    ) -> None:
        """Create the Worker.

        Args:
            flows: What it serves; Flow types must differ.
            server_address: The engine, such as `LocalEngine.server_address` or a Dex Server's address.
            max_concurrent_tasks: How many Steps and RPCs run at once in this process, at least 2: one place
                is kept for RPCs, so that a session answers while its tools are busy.
            drain_timeout: How long running Steps may finish when the block ends; then they are cancelled.
            ready_timeout: How long to wait for an engine that is not there yet.

        Raises:
            InvalidInputError: No flow, or too few tasks.
        """
        if not flows:
            raise InvalidInputError("flows", "at least one is needed")
        if max_concurrent_tasks < 2:
            raise InvalidInputError("max_concurrent_tasks", "must be at least 2")
        self._server_address = server_address
        self._ready_seconds = ready_timeout.total_seconds()
        self._cache = FetchingBlobCache(server_address)
        self._worker = AsyncWorker(
            build_session_registry(*flows),
            self._cache,
            WorkerOptions(
                server_address=server_address,
                pull=PullWorkerOptions(
                    max_concurrent_tasks=max_concurrent_tasks,
                    idle_streams_per_queue=_IDLE_STREAMS,
                    stop_drain_timeout=drain_timeout,
                ),
            ),
        )
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start, and wait until the engine can hand out work.

        Raises:
            EngineUnreachableError: No engine answered in time, or it speaks another protocol.
        """
        await self._wait_for_engine()
        self._running = asyncio.create_task(self._worker.start())
        try:
            await self._worker.wait_pull_registered(timeout=self._ready_seconds)
        except (RuntimeError, TimeoutError) as error:
            await self._close()
            problem = str(error).partition("\n")[0] or "it took no Worker in time"
            raise EngineUnreachableError(self._server_address, problem) from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let running Steps finish, then stop."""
        await self._close()

    async def wait_until_stopped(self) -> None:
        """Wait until the Worker stops by itself, which it does only when it cannot go on.

        Raises:
            Exception: Why it stopped.
        """
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _wait_for_engine(self) -> None:
        # The SDK takes the first refused connection for a server of another protocol and gives up.
        async with grpc.aio.insecure_channel(self._server_address) as channel:
            try:
                await asyncio.wait_for(channel.channel_ready(), self._ready_seconds)
            except TimeoutError:
                problem = f"it did not accept a connection within {self._ready_seconds:g} s"
                raise EngineUnreachableError(self._server_address, problem) from None

    async def _close(self) -> None:
        await self._worker.close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None
        self._cache.close()
