from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

HOUR = timedelta(hours=1)


class Hold(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(dex.Timer.by_duration(HOUR)) if input == "hold" else dex.Wait.skip_immediately()

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        return dex.force_fail("asked to") if input == "fail" else dex.graceful_complete(input)


class Holding(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Hold())


flow = Holding()
POLICY = dex.IdReusePolicy


async def test_the_same_request_starts_once(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        options = dex.StartFlowOptions(request_id="once", ignore_already_started=True)
        runs = await asyncio.gather(
            *(room.client.start_flow(flow, "f", f"input {number}", options) for number in range(20))
        )
        assert len(set(runs)) == 1
        other = dex.StartFlowOptions(request_id="another", ignore_already_started=True)
        with pytest.raises(dex.FlowAlreadyStartedError):
            await room.client.start_flow(flow, "f", "x", other)


@pytest.mark.parametrize(
    ("policy", "first", "is_allowed"),
    [
        (POLICY.DEFAULT, "done", False),
        (POLICY.DISALLOW, "done", False),
        (POLICY.ALLOW_IF_NOT_RUNNING, "done", True),
        (POLICY.ALLOW_IF_NOT_RUNNING, "hold", False),
        (POLICY.ALLOW_IF_PREVIOUS_FAILED, "done", False),
        (POLICY.ALLOW_IF_PREVIOUS_FAILED, "fail", True),
        (POLICY.ALLOW_IF_PREVIOUS_FAILED, "hold", False),
        (POLICY.ALLOW_TERMINATE_IF_RUNNING, "hold", True),
        (POLICY.ALLOW_TERMINATE_IF_RUNNING, "done", True),
    ],
)
async def test_a_used_flow_id_may_be_used_again_as_the_policy_says(
    tmp_path: Path, policy: dex.IdReusePolicy, first: str, is_allowed: bool
) -> None:
    async with open_room(tmp_path, flow) as room:
        run_id = await room.client.start_flow(flow, "f", first)
        if first != "hold":
            await room.client.wait_for_flow("f", BOUND)
        options = dex.StartFlowOptions(id_reuse_policy=policy)
        if not is_allowed:
            with pytest.raises(dex.FlowAlreadyStartedError):
                await room.client.start_flow(flow, "f", "done", options)
            return
        assert await room.client.start_flow(flow, "f", "second", options) != run_id
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "second"
        if first == "hold":
            terminated = await room.client.search_flows("ExecutionStatus = 'Terminated'", 10)
            assert [each.run_id for each in terminated.flows] == [run_id]


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (dex.FlowTimeoutPolicy.FAIL, dex.FlowStatus.FAILED),
        (dex.FlowTimeoutPolicy.CANCEL, dex.FlowStatus.CANCELED),
    ],
)
async def test_a_flow_that_outlives_its_timeout_is_closed(
    tmp_path: Path, policy: dex.FlowTimeoutPolicy, status: dex.FlowStatus
) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions(timeout=timedelta(seconds=1), timeout_policy=policy)
        result = await room.run(flow, "f", "hold", options)
        assert result.status is status
        if status is dex.FlowStatus.FAILED:
            assert result.error_type is dex.FlowErrorType.FLOW_TIMEOUT


async def test_a_timeout_handler_decides_what_becomes_of_the_flow(tmp_path: Path) -> None:
    class Handled(Holding):
        def handle_timeout(self, context: dex.Context) -> dex.StepDecision:
            return dex.force_complete(context.step_execution_id)

    handled = Handled()
    async with open_room(tmp_path, handled) as room:
        options = dex.StartFlowOptions(timeout=timedelta(seconds=1))
        result = await room.run(handled, "f", "hold", options)
        assert result.status is dex.FlowStatus.COMPLETED
        assert result.single_output(str) == "sys:timeout_handler-1"


async def test_a_start_delay_holds_the_first_step_back(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await room.run(flow, "f", "done", dex.StartFlowOptions(start_delay=timedelta(seconds=1)))
        assert loop.time() - start >= 1


async def test_a_flow_started_before_any_worker_waits_for_one(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        await room.client.start_flow(flow, "f", "done")
        assert (await room.client.describe_flow("f")).status is dex.FlowStatus.RUNNING
        async with room.run_worker():
            assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "done"


async def test_two_flow_types_on_separate_workers_each_find_their_own(tmp_path: Path) -> None:
    class Other(Holding):
        pass

    other = Other()
    async with open_room(tmp_path, flow, other, workers=0) as room, room.run_worker(flow):
        await room.client.start_flow(other, "o", "done")
        assert (await room.run(flow, "f", "done")).single_output(str) == "done"
        assert (await room.client.describe_flow("o")).status is dex.FlowStatus.RUNNING
        async with room.run_worker(other):
            assert (await room.client.wait_for_flow("o", BOUND)).single_output(str) == "done"


async def test_a_push_worker_address_is_refused(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        options = dex.ClientOptions(
            server_address=room.address, worker_target=dex.WorkerTarget("127.0.0.1:8803")
        )
        client = dex.AsyncClient(room.registry, room.client.blob_cache, options)
        with pytest.raises(dex.DexServiceError, match="Workers that pull"):
            await client.start_flow(flow, "f", "done")
        await client.close()
