from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

total = dex.Attribute("total", int)
inbox = dex.Channel("inbox", str)


class Greet(AsyncStep[str]):
    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        return dex.graceful_complete(f"{input} from {context.from_step_execution_id}")


class Rest(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(dex.Timer.by_duration(timedelta(hours=1)))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        return dex.dead_end()


class Desk(dex.Flow[None]):
    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()

    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].without_start_step(Greet(), Rest())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(total, inbox)

    @dex.rpc
    def set_total(self, context: dex.Context, value: int) -> None:
        total.set(context, value)

    @dex.rpc
    def get_total(self, context: dex.Context) -> dex.RPCResult[int]:
        return dex.RPCResult(total.get(context))

    @dex.rpc(lock_attributes=(total.lock(),))
    async def add(self, context: dex.Context, value: int) -> dex.RPCResult[int]:
        self.entered.set()
        await self.leave.wait()
        total.set(context, total.get(context) + value)
        return dex.RPCResult(total.get(context))

    @dex.rpc
    def greet(self, context: dex.Context, name: str) -> dex.RPCResult[str]:
        return dex.RPCResult("greeting", next_steps=(dex.StepMovement[str].of(Greet, name),))

    @dex.rpc
    def rest(self, context: dex.Context, name: str) -> dex.RPCResult[str]:
        return dex.RPCResult("resting", next_steps=(dex.StepMovement[str].of(Rest, name),))

    @dex.rpc
    def wake(self, context: dex.Context, name: str) -> dex.RPCResult[str]:
        return dex.RPCResult("woken").with_canceling_steps(Rest)

    @dex.rpc
    def fail(self, context: dex.Context, value: int) -> None:
        total.set(context, value)
        raise RuntimeError("no such desk")

    @dex.rpc(timeout=timedelta(seconds=1))
    async def dawdle_briefly(self, context: dex.Context, value: int) -> None:
        total.set(context, value)
        await self.leave.wait()

    @dex.rpc
    async def dawdle(self, context: dex.Context, value: int) -> None:
        total.set(context, value)
        self.entered.set()
        await self.leave.wait()

    @dex.rpc
    def send(self, context: dex.Context, text: str) -> None:
        inbox.publish(context, text)

    @dex.rpc(load_channels=(inbox,))
    def ids(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        return dex.RPCResult([message.message_id for message in inbox.pending_messages(context)])

    @dex.rpc(is_transactional=True, load_channels=(inbox,))
    def withdraw(self, context: dex.Context, message_id: str) -> None:
        total.set(context, -1)
        inbox.delete(context, message_id)


async def test_what_an_rpc_wrote_the_next_one_reads(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        for value in range(10):
            await room.client.invoke_rpc(flow.set_total, "desk", value)
            assert await room.client.invoke_rpc(flow.get_total, "desk") == value


async def test_a_held_lock_is_reported_at_once_and_freed_with_its_holder(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await room.client.invoke_rpc(flow.set_total, "desk", 1)
        holder = asyncio.create_task(room.call(flow.add, "desk", 10))
        await flow.entered.wait()
        with pytest.raises(dex.RpcLockConflictError):
            await room.call(flow.add, "desk", 100)
        flow.leave.set()
        assert await holder == 11
        assert await room.call(flow.add, "desk", 100) == 111


async def test_an_rpc_starts_and_cancels_steps(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await room.client.invoke_rpc(flow.rest, "desk", "x")
        await room.client.invoke_rpc(flow.greet, "desk", "ann")
        options = dex.WaitForStepCompletionOptions(request_timeout=BOUND)
        await room.client.wait_for_step_completion("desk", dex.StepExecutionId("Greet"), options)
        # The resting Step keeps the run open until it is cancelled.
        assert (await room.client.describe_flow("desk")).status is dex.FlowStatus.RUNNING
        await room.client.invoke_rpc(flow.wake, "desk", "x")
        result = await room.client.wait_for_flow("desk", BOUND)
        assert result.single_output(str) == "ann from __rpc/greet"


async def test_a_failing_rpc_changes_nothing_and_tells_why(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await room.client.invoke_rpc(flow.set_total, "desk", 1)
        with pytest.raises(dex.WorkerInvocationError) as caught:
            await room.client.invoke_rpc(flow.fail, "desk", 2)
        assert caught.value.worker_error_detail == "no such desk"
        assert caught.value.worker_error_type == "builtins.RuntimeError"
        assert await room.client.invoke_rpc(flow.get_total, "desk") == 1


async def test_an_rpc_whose_run_closes_meanwhile_applies_nothing(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        late = asyncio.create_task(room.call(flow.dawdle, "desk", 5))
        await flow.entered.wait()
        await room.client.stop_flow("desk")
        flow.leave.set()
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await late
        assert await room.client.invoke_rpc(flow.get_total, "desk") == 0


async def test_an_unanswered_rpc_ends_with_its_own_timeout(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        with pytest.raises(dex.DexServiceError, match="not answered within 1 s"):
            await room.call(flow.dawdle_briefly, "desk", 5)
        assert await room.client.invoke_rpc(flow.get_total, "desk") == 0


async def test_a_closed_flow_still_answers_reads_but_no_writes(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await room.client.invoke_rpc(flow.set_total, "desk", 7)
        await room.client.stop_flow("desk")
        assert await room.client.invoke_rpc(flow.get_total, "desk") == 7
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await room.client.invoke_rpc(flow.set_total, "desk", 8)
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await room.client.invoke_rpc(flow.withdraw, "desk", "x")


async def test_a_message_is_withdrawn_once_and_the_second_attempt_applies_nothing(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await room.client.invoke_rpc(flow.send, "desk", "a")
        await room.client.invoke_rpc(flow.send, "desk", "b")
        first, second = await room.client.invoke_rpc(flow.ids, "desk")
        assert first < second
        await room.client.invoke_rpc(flow.withdraw, "desk", first)
        assert await room.client.invoke_rpc(flow.ids, "desk") == [second]
        await room.client.invoke_rpc(flow.set_total, "desk", 3)
        with pytest.raises(dex.ChannelMessageNotFoundError):
            await room.client.invoke_rpc(flow.withdraw, "desk", first)
        assert await room.client.invoke_rpc(flow.get_total, "desk") == 3


async def test_parallel_rpcs_on_one_flow_are_all_applied(tmp_path: Path) -> None:
    flow = Desk()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "desk", None)
        await asyncio.gather(*(room.client.invoke_rpc(flow.send, "desk", str(n)) for n in range(100)))
        assert len(set(await room.client.invoke_rpc(flow.ids, "desk"))) == 100
