"""Faults in the middle of commits: a kill at every moment of one, a full disk, a file that somebody locks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dex
import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc as pb_grpc

from dex_agents.engine import LocalEngine, check_database
from dex_agents.engine.store import database
from dex_agents.errors import EngineError
from tests.crash.engine.faults import MOMENTS, FaultyEngine
from tests.integration.engine.room import BOUND, AsyncStep, MemoryCache, open_room

pytestmark = pytest.mark.crash

STEPS = 6
ONCE = dex.RetryPolicy(maximum_attempts=1)
document = dex.Attribute("document", str)
visited = dex.AttributeMap("visited", int)


class Walk(AsyncStep[int]):
    """Walks so many Steps, alternating with one that may be attempted once only."""

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        visited.set(context, str(input), 1)
        return dex.go_to(Leap, input - 1) if input > 1 else dex.graceful_complete(context.step_execution_id)


class Leap(AsyncStep[int]):
    attempts: dict[str, int]

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_retry=ONCE).on_execute_failure_proceed_to(Unsure)

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        name = f"{context.flow_id}/{context.step_execution_id}"
        Leap.attempts[name] = Leap.attempts.get(name, 0) + 1
        return dex.go_to(Walk, input - 1) if input > 1 else dex.graceful_complete(context.step_execution_id)


class Unsure(AsyncStep[int]):
    """What follows a leap whose outcome is unknown: the walk goes on behind it."""

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        return dex.go_to(Walk, input - 1) if input > 1 else dex.graceful_complete(context.step_execution_id)


class Hike(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Walk()).other_steps(Leap(), Unsure())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(visited, document)

    @dex.rpc
    def note(self, context: dex.Context, text: str) -> None:
        document.set(context, text)

    @dex.rpc
    def read(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(document.get(context))


class Fall(AsyncStep[str]):
    """Fails in every run."""

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        raise RuntimeError(input)

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_retry=ONCE)


class Climb(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Fall())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(document)


class Empty(dex.Flow[None]):
    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].empty()

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(document)

    @dex.rpc
    def note(self, context: dex.Context, text: str) -> None:
        document.set(context, text)

    @dex.rpc
    def read(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(document.get(context))


@contextlib.asynccontextmanager
async def connect(address: str, *flows: dex.Flow[Any]) -> AsyncGenerator[dex.AsyncClient]:
    """Run a client and a Worker in this process; both outlive the engine."""
    registry = dex.Registry(list(flows), allow_async_handlers=True)
    target = dex.WorkerTarget(pull=True)
    client = dex.AsyncClient(
        registry, MemoryCache(), dex.ClientOptions(server_address=address, worker_target=target)
    )
    pull = dex.PullWorkerOptions(max_concurrent_tasks=4)
    worker = dex.AsyncWorker(registry, MemoryCache(), dex.WorkerOptions(server_address=address, pull=pull))
    serving = asyncio.create_task(worker.start())
    try:
        # A Worker whose first calls find no engine gives up: the fault is to come later.
        await worker.wait_pull_registered(timeout=BOUND.total_seconds())
        yield client
    finally:
        await worker.close()
        with contextlib.suppress(dex.DexServiceError):
            await serving
        await client.close()


async def insist(call: Any) -> Any:
    """Repeat a call that the engine's absence made fail."""
    async with asyncio.timeout(BOUND.total_seconds()):
        while True:
            try:
                return await call()
            except dex.DexServiceError as error:
                if error.code is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def restarted_once(engine: FaultyEngine) -> AsyncGenerator[None]:
    """Start an engine again after its fault, if that comes."""
    dying = asyncio.create_task(engine.wait())

    async def restart() -> None:
        await dying
        engine.fault = "none"
        await engine.start()

    restarting = asyncio.create_task(restart())
    yield
    if dying.done():
        await restarting
    else:
        # There were fewer commits or folds than that.
        restarting.cancel()


async def read_history(address: str, flow_id: str, run_id: str = "") -> list[Any]:
    """Return the events of a run, and see that none is missing and no method ended twice."""
    async with grpc.aio.insecure_channel(address) as channel:
        request = pb.GetHistoryEventsRequest(flow_id=flow_id, run_id=run_id)
        stub: Any = pb_grpc.FlowServiceStub(channel)
        events = list((await stub.GetHistoryEvents(request, wait_for_ready=True)).events)
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    ended = [
        (kind.split("_")[1], getattr(event, kind).context.step_execution_id)
        for event in events
        if (kind := event.WhichOneof("payload")).startswith("step_")
    ]
    assert len(ended) == len(set(ended))
    return events


@pytest.mark.requirement("engine-acknowledged")
@pytest.mark.requirement("engine-history")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [1, 2, 3, 5, 8])
async def test_a_kill_at_any_moment_of_a_commit_loses_and_repeats_nothing(
    tmp_path: Path, moment: str, number: int
) -> None:
    Leap.attempts = {}
    flow = Hike()
    async with (
        FaultyEngine(tmp_path / "engine.db", moment, number, upkeep="often") as engine,
        restarted_once(engine),
        connect(engine.server_address, flow) as client,
    ):
        for flow_id in ("a", "b"):
            # One request ID: the engine may have taken it before it could say so.
            options = dex.StartFlowOptions(request_id=flow_id, ignore_already_started=True)
            await insist(lambda name=flow_id, given=options: client.start_flow(flow, name, STEPS, given))
        for flow_id in ("a", "b"):
            result = await insist(lambda name=flow_id: client.wait_for_flow(name, BOUND))
            assert result.single_output(str) in {"Leap-3", "Unsure-1", "Unsure-2", "Unsure-3"}
            events = await insist_on_history(engine.server_address, flow_id)
            # Every Step of the walk ended, in one way or another.
            assert sum(event.HasField("step_execute_completed") for event in events) == STEPS
            kinds = [event.WhichOneof("payload") for event in events]
            assert (kinds[0], kinds[-1]) == ("flow_started_or_continued", "flow_closed")
            assert set(kinds[1:-1]) <= {"step_execute_completed", "step_execute_failed"}
    assert Leap.attempts
    assert set(Leap.attempts.values()) == {1}
    report = check_database(tmp_path / "engine.db")
    assert report.problems == ()


async def insist_on_history(address: str, flow_id: str, run_id: str = "") -> list[Any]:
    """Read history; the engine may be about to be killed."""
    async with asyncio.timeout(BOUND.total_seconds()):
        while True:
            try:
                return await read_history(address, flow_id, run_id)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise


@pytest.mark.requirement("engine-flow-retry")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [2, 4])
async def test_a_kill_at_any_moment_makes_no_run_more_and_none_less(
    tmp_path: Path, moment: str, number: int
) -> None:
    flow = Climb()
    policy = dex.RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=1.0, maximum_attempts=3
    )
    options = dex.StartFlowOptions(request_id="a", ignore_already_started=True, retry_policy=policy)
    async with (
        FaultyEngine(tmp_path / "engine.db", moment, number, upkeep="often") as engine,
        restarted_once(engine),
        connect(engine.server_address, flow) as client,
    ):
        first_run = await insist(lambda: client.start_flow(flow, "a", "x" * 40_000, options))
        result = await insist(lambda: client.wait_for_flow("a", BOUND))
        assert result.status is dex.FlowStatus.FAILED
        runs = [first_run]
        while True:
            events = await insist_on_history(engine.server_address, "a", runs[-1])
            assert {event.run_attempt for event in events} == {len(runs)}
            follower = events[-1].flow_closed.continued_to_run_id
            if not follower:
                break
            runs.append(follower)
        assert len(runs) == 3
        found = await insist(lambda: client.search_flows("", 10))
        assert {entry.run_id for entry in found.flows} == set(runs)
    assert check_database(tmp_path / "engine.db").problems == ()


@pytest.mark.requirement("engine-fail-stop")
async def test_a_full_disk_ends_the_engine_and_what_it_acknowledged_is_there(tmp_path: Path) -> None:
    flow = Empty()
    acknowledged = 0
    async with (
        FaultyEngine(tmp_path / "engine.db", "file-size", 400_000) as engine,
        connect(engine.server_address, flow) as client,
    ):
        await insist(lambda: client.start_flow(flow, "f", None))
        with contextlib.suppress(dex.DexServiceError):
            for number in range(1, 1000):
                await client.invoke_rpc(flow.note, "f", f"{number:05}" + "x" * 5_000)
                acknowledged = number
        assert await engine.wait() == 2
        assert "it could not go on" in engine.log
        assert 5 < acknowledged < 999
        engine.fault = "none"
        await engine.start()
        text = await insist(lambda: client.invoke_rpc(flow.read, "f"))
        # The one that failed may have reached the disk, and nobody was told.
        assert int(text[:5]) in {acknowledged, acknowledged + 1}
    assert check_database(tmp_path / "engine.db").problems == ()


async def test_a_kill_that_is_taken_back_in_time_does_not_come(tmp_path: Path) -> None:
    flow = Empty()
    async with (
        FaultyEngine(tmp_path / "engine.db") as engine,
        connect(engine.server_address, flow) as client,
    ):
        engine.arm("before a commit", 1)
        assert await engine.disarm()
        await client.start_flow(flow, "f", None)
        assert engine.is_running


async def test_a_kill_in_the_middle_of_the_work_is_told_from_one_that_was_taken_back(tmp_path: Path) -> None:
    flow = Empty()
    async with (
        FaultyEngine(tmp_path / "engine.db") as engine,
        connect(engine.server_address, flow) as client,
    ):
        await insist(lambda: client.start_flow(flow, "f", None))
        engine.arm("after a commit", 2)
        await insist(lambda: client.invoke_rpc(flow.note, "f", "first"))
        noting = asyncio.create_task(insist(lambda: client.invoke_rpc(flow.note, "f", "second")))
        assert await engine.wait() == -signal.SIGKILL
        assert not await engine.disarm()
        await engine.start()
        await noting
        assert await insist(lambda: client.invoke_rpc(flow.read, "f")) == "second"


async def test_a_file_that_is_locked_for_a_while_only_delays(tmp_path: Path) -> None:
    flow = Empty()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", None)
        with contextlib.closing(sqlite3.connect(room.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(room.call(flow.note, "f", "waited"))
            done, _ = await asyncio.wait({writing}, timeout=0.5)
            assert not done
            other.execute("ROLLBACK")
            await writing
        assert await room.call(flow.read, "f") == "waited"


async def test_a_file_that_stays_locked_ends_the_engine_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.2)
    flow = Empty()
    path = tmp_path / "engine.db"
    opened = open_room(tmp_path, flow)
    room = await opened.__aenter__()
    await room.client.start_flow(flow, "f", None)
    await room.call(flow.note, "f", "acknowledged")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(dex.DexServiceError) as caught:
            await room.client.invoke_rpc(flow.note, "f", "never acknowledged")
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(EngineError, match="database is locked"):
            await room.engine.stop()
        with pytest.raises(EngineError, match="locked"):
            await LocalEngine(path).start()
        other.execute("ROLLBACK")
    await room.engine.start()
    assert await room.call(flow.read, "f") == "acknowledged"
    await opened.__aexit__(None, None, None)
