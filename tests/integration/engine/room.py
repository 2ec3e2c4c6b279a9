"""An engine, a client and Workers for one test, all through the unmodified SDK."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import dex
import grpc
from dex.dexpb import dex_pb2_grpc as pb_grpc

from dex_agents.engine import LocalEngine

InputT = TypeVar("InputT")

BOUND = timedelta(seconds=30)
"""The one bound under which every test waits."""


class AsyncStep(dex.Step[InputT], ABC):
    """A Step whose `execute` is a coroutine, which the SDK accepts and its types do not say."""

    @abstractmethod
    async def execute(self, context: dex.AsyncContext, input: InputT) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        ...


class MemoryCache:
    """A blob cache that forgets nothing and counts what it was asked for in vain."""

    def __init__(self) -> None:
        self.config = dex.BlobCacheConfig("unused", 1)
        self.misses = 0
        self._payloads: dict[str, bytes] = {}

    def get(self, blob_id: str) -> bytes | None:
        payload = self._payloads.get(blob_id)
        self.misses += payload is None
        return payload

    def put(self, blob_id: str, payload: bytes) -> bool:
        self._payloads[blob_id] = payload
        return True

    def delete(self, blob_id: str) -> None:
        self._payloads.pop(blob_id, None)

    def delete_all(self) -> None:
        self._payloads.clear()

    def close(self) -> None:
        self._payloads.clear()


class Room:
    """What a test works with.

    Attributes:
        address: Where the engine listens; a restart keeps it.
        client: A client that knows the room's Flows.
    """

    def __init__(self, folder: Path, flows: Sequence[dex.Flow[Any]], **options: Any) -> None:
        self.database = folder / "engine.db"
        self.address = f"unix:{folder}/engine.sock"
        self.registry = dex.Registry(list(flows), allow_async_handlers=True)
        self.engine = LocalEngine(self.database, listen=self.address, **options)
        self.client = self.open_client()

    def open_client(self) -> dex.AsyncClient:
        options = dex.ClientOptions(server_address=self.address, worker_target=dex.WorkerTarget(pull=True))
        return dex.AsyncClient(self.registry, MemoryCache(), options)

    @contextlib.asynccontextmanager
    async def run_worker(
        self,
        *flows: dex.Flow[Any],
        tasks: int = 8,
        pull: dex.PullWorkerOptions | None = None,
    ) -> AsyncGenerator[dex.AsyncWorker]:
        """Run a Worker for some of the Flows, or for all."""
        registry = dex.Registry(list(flows), allow_async_handlers=True) if flows else self.registry
        options = dex.WorkerOptions(
            server_address=self.address, pull=pull or dex.PullWorkerOptions(max_concurrent_tasks=tasks)
        )
        worker = dex.AsyncWorker(registry, MemoryCache(), options)
        serving = asyncio.create_task(worker.start())
        try:
            await worker.wait_pull_registered(timeout=BOUND.total_seconds())
            yield worker
        finally:
            await worker.close()
            await serving

    @contextlib.asynccontextmanager
    async def raw_stub(self) -> AsyncGenerator[Any]:
        """Speak to the engine as tools do that are no Workers."""
        async with grpc.aio.insecure_channel(
            self.address, options=[("grpc.max_receive_message_length", -1)]
        ) as channel:
            yield pb_grpc.FlowServiceStub(channel)

    async def run(
        self, flow: dex.Flow[Any], flow_id: str, given: Any, options: dex.StartFlowOptions | None = None
    ) -> dex.FlowResult:
        """Start a Flow and wait until it is closed."""
        await self.client.start_flow(flow, flow_id, given, options or dex.StartFlowOptions())
        return await self.client.wait_for_flow(flow_id, BOUND)

    async def restart(self) -> None:
        """Stop the engine and start it again on the same file and address."""
        await self.engine.stop()
        await self.engine.start()
        async with asyncio.timeout(BOUND.total_seconds()):
            # The channel of the client may be in the middle of its own reconnection.
            while not await self._is_connected():
                await asyncio.sleep(0.01)

    async def _is_connected(self) -> bool:
        try:
            return await self.client.health_check()
        except dex.DexServiceError:
            return False

    async def call(self, rpc: Any, flow_id: str, *arguments: Any) -> Any:
        """Invoke an RPC; while a restarted engine has no Worker yet, ask again."""
        async with asyncio.timeout(BOUND.total_seconds()):
            while True:
                try:
                    return await self.client.invoke_rpc(rpc, flow_id, *arguments)
                except dex.DexServiceError as error:
                    if error.code is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def open_room(
    folder: Path, *flows: dex.Flow[Any], workers: int = 1, **options: Any
) -> AsyncGenerator[Room]:
    """Run an engine, with options of its own, and Workers for every Flow given."""
    room = Room(folder, flows, **options)
    async with contextlib.AsyncExitStack() as opened:
        await opened.enter_async_context(room.engine)
        opened.push_async_callback(room.client.close)
        for _ in range(workers):
            await opened.enter_async_context(room.run_worker())
        yield room
