"""SIGKILL to the engine and to Workers, at the moments that matter."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import dex
import grpc
import pytest

from dex_agents.testing import EngineProcess, FileGate
from tests.crash.engine.flows import WorkerProcess, build_flows, tokens
from tests.integration.engine.room import BOUND, MemoryCache

pytestmark = pytest.mark.crash


class Stage:
    """An engine process, a Worker process, and a client that outlives both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flows: dict[str, Any] = dict(build_flows(folder))
        self.engine = EngineProcess(folder / "engine.db")
        self.worker: WorkerProcess
        self.client: dex.AsyncClient

    def gate(self, flow_id: str) -> FileGate:
        return FileGate(self.folder / flow_id)

    async def retry(self, call: Any) -> Any:
        """Repeat a call that the engine's absence made fail."""
        async with asyncio.timeout(BOUND.total_seconds()):
            while True:
                try:
                    return await call()
                except dex.DexServiceError as error:
                    if error.code is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    await asyncio.sleep(0.02)

    async def output(self, flow_id: str, output_type: type[Any] = str) -> Any:
        result = await self.retry(lambda: self.client.wait_for_flow(flow_id, BOUND))
        return result.single_output(output_type)


@contextlib.asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage]:
    stage = Stage(folder)
    async with stage.engine, WorkerProcess(stage.engine.server_address, folder) as worker:
        stage.worker = worker
        registry = dex.Registry(list(stage.flows.values()), allow_async_handlers=True)
        options = dex.ClientOptions(
            server_address=stage.engine.server_address, worker_target=dex.WorkerTarget(pull=True)
        )
        stage.client = dex.AsyncClient(registry, MemoryCache(), options)
        yield stage
        await stage.client.close()


async def restart_engine(stage: Stage) -> None:
    await stage.engine.kill()
    await stage.engine.start()


async def restart_worker(stage: Stage) -> None:
    await stage.worker.kill()
    await stage.worker.start()


@pytest.mark.parametrize("kill", [restart_engine, restart_worker])
async def test_a_single_attempt_that_was_killed_is_never_made_again(tmp_path: Path, kill: Any) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.client.start_flow(stage.flows["once"], "f", "in")
        await stage.gate("f").wait_for_arrivals()
        await kill(stage)
        output = await stage.output("f")
        assert output in {"unknown: EngineRestarted", "unknown: WorkerDisconnected"}
        assert len(stage.gate("f").arrivals) == 1


@pytest.mark.requirement("engine-attempts")
@pytest.mark.parametrize("kill", [restart_engine, restart_worker])
async def test_the_second_of_two_attempts_is_made_and_no_third(tmp_path: Path, kill: Any) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.client.start_flow(stage.flows["twice"], "f", "in")
        await stage.gate("f").wait_for_arrivals(1)
        await kill(stage)
        await stage.gate("f").wait_for_arrivals(2)
        await kill(stage)
        assert (await stage.output("f")).startswith("unknown: ")
        assert len(stage.gate("f").arrivals) == 2


@pytest.mark.parametrize("kill", [restart_engine, restart_worker])
async def test_an_unlimited_step_is_repeated_with_its_heartbeat(tmp_path: Path, kill: Any) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.client.start_flow(stage.flows["held"], "f", "in")
        await stage.gate("f").wait_for_arrivals(1)
        await stage.client.read_stream("f", stage.flows["held"].progress, timeout=BOUND)
        await kill(stage)
        await stage.gate("f").wait_for_arrivals(2)
        stage.gate("f").open()
        assert await stage.output("f") == "attempt 2, last beat 1"


async def test_a_step_that_no_worker_has_seen_is_not_counted_as_made(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.gate("f").open()
        await stage.worker.kill()
        await stage.client.start_flow(stage.flows["once"], "f", "in")
        await restart_engine(stage)
        await stage.worker.start()
        assert await stage.output("f") == "attempt 1, last beat 0"


@pytest.mark.parametrize("seed", range(3))
async def test_no_acknowledged_message_is_lost_or_doubled_by_kills(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    ledger = "ledger"
    async with open_stage(tmp_path) as stage:
        flow = stage.flows[ledger]
        await stage.client.start_flow(flow, ledger, 0)
        acknowledged: list[int] = []
        doubtful: list[int] = []
        is_over = asyncio.Event()

        async def send(start: int) -> None:
            value = start
            while not is_over.is_set():
                value += 10
                try:
                    await stage.client.invoke_rpc(flow.send, ledger, value)
                    acknowledged.append(value)
                except dex.DexServiceError:
                    doubtful.append(value)
                    await asyncio.sleep(0.02)

        async def kill() -> None:
            for number in range(4):
                reached = len(acknowledged) + choose.randrange(5, 40)
                async with asyncio.timeout(BOUND.total_seconds()):
                    while len(acknowledged) < reached:
                        await asyncio.sleep(0)
                await (restart_engine(stage) if number % 3 else restart_worker(stage))
            is_over.set()

        await asyncio.gather(kill(), *(send(start) for start in range(5)))
        await stage.retry(lambda: stage.client.invoke_rpc(flow.send, ledger, -1))
        await stage.output(ledger, int)
        counts: dict[str, int] = await stage.retry(lambda: stage.client.invoke_rpc(flow.counts, ledger))
        assert {str(value) for value in acknowledged} <= counts.keys()
        assert counts.keys() <= {str(value) for value in acknowledged + doubtful}
        assert set(counts.values()) == {1}
        assert len(acknowledged) > 30
        streamed: list[str] = []
        page = await stage.client.list_stream_messages(ledger, tokens, page_size=1000)
        streamed += [message.value for message in page.messages]
        # A repeated Step writes again, and what a finished Step wrote is never missing.
        assert counts.keys() == set(streamed)


async def test_two_hundred_starts_survive_a_kill_in_their_midst(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        flow = stage.flows["ledger"]
        started: list[str] = []

        async def start(number: int) -> None:
            options = dex.StartFlowOptions(request_id=f"r{number}", ignore_already_started=True)
            await stage.retry(lambda: stage.client.start_flow(flow, f"f{number}", 0, options))
            started.append(f"f{number}")

        starting = asyncio.gather(*(start(number) for number in range(200)))
        async with asyncio.timeout(BOUND.total_seconds()):
            while len(started) < 60:
                await asyncio.sleep(0)
        await restart_engine(stage)
        await starting
        found = await stage.retry(lambda: stage.client.search_flows("FlowType = 'Ledger'", 1000))
        assert sorted(each.flow_id for each in found.flows) == sorted(f"f{number}" for number in range(200))


async def test_a_killed_engine_leaves_a_file_that_the_next_one_opens_at_any_moment(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        flow = stage.flows["ledger"]
        for number in range(5):
            await stage.retry(lambda number=number: stage.client.start_flow(flow, f"f{number}", 0))
            writing = [
                asyncio.create_task(stage.client.write_stream("f", tokens, "test", f"{number}-{n}" * 50))
                for n in range(200)
            ]
            await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)
            await restart_engine(stage)
            await asyncio.gather(*writing, return_exceptions=True)
        assert len((await stage.client.search_flows("", 10)).flows) == 5
