from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

note = dex.Attribute("note", str)
inbox = dex.Channel("inbox", str)
WAIT = dex.WaitForAttributeOptions(request_timeout=BOUND)


class Listen(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        note.set(context, "listening")
        context.set_step_execution_local("local", "kept")
        timer = dex.Timer.by_duration(timedelta(seconds=1) if input == "brief" else timedelta(hours=1))
        return dex.Wait.any_of(timer, inbox.for_n(2))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        local = context.get_step_execution_local("local", str)
        note.set(context, "done")
        return dex.graceful_complete([context.step_execution_id, local, *inbox.results(context)])


class Room(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Listen())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(note, inbox)

    @dex.rpc
    def say(self, context: dex.Context, text: str) -> None:
        inbox.publish(context, text)

    @dex.rpc
    def say_all(self, context: dex.Context, texts: list[str]) -> None:
        for text in texts:
            inbox.publish(context, text)

    @dex.rpc
    def read(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(note.get(context))

    @dex.rpc(load_channels=(inbox,))
    def ids(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        return dex.RPCResult([message.message_id for message in inbox.pending_messages(context)])

    @dex.rpc(is_transactional=True, load_channels=(inbox,))
    def withdraw(self, context: dex.Context, message_id: str) -> None:
        inbox.delete(context, message_id)


flow = Room()


async def test_a_waiting_flow_goes_on_where_it_was(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "long")
        await room.client.wait_for_attribute_match(
            "f", note, dex.AttributeMatch[str].equal_to("listening"), WAIT
        )
        await room.client.invoke_rpc(flow.say, "f", "before")
        await room.restart()
        await room.call(flow.say, "f", "after")
        result = await room.client.wait_for_flow("f", BOUND)
        assert result.single_output(list[str]) == ["Listen-1", "kept", "before", "after"]


async def test_a_timer_that_came_due_while_the_engine_was_down_fires_at_once(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "brief")
        await room.client.wait_for_attribute_match(
            "f", note, dex.AttributeMatch[str].equal_to("listening"), WAIT
        )
        await room.restart()
        assert (await room.client.wait_for_flow("f", BOUND)).status is dex.FlowStatus.COMPLETED


async def test_message_ids_are_not_used_again_after_a_restart(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "long")
        await room.client.invoke_rpc(flow.say, "f", "withdrawn")
        (first,) = await room.client.invoke_rpc(flow.ids, "f")
        await room.client.invoke_rpc(flow.withdraw, "f", first)
        await room.restart()
        await room.call(flow.say, "f", "new")
        (second,) = await room.client.invoke_rpc(flow.ids, "f")
        assert second > first
        with pytest.raises(dex.ChannelMessageNotFoundError):
            await room.client.invoke_rpc(flow.withdraw, "f", first)


async def test_a_closed_flow_is_still_known(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions(request_id="r", ignore_already_started=True)
        run_id = await room.client.start_flow(flow, "f", "long", options)
        await room.client.invoke_rpc(flow.say_all, "f", ["a", "b", "c"])
        expected = ["Listen-1", "kept", "a", "b"]
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(list[str]) == expected
        await room.restart()
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(list[str]) == expected
        summary = await room.client.describe_flow("f")
        assert (summary.run_id, summary.status) == (run_id, dex.FlowStatus.COMPLETED)
        assert await room.call(flow.read, "f") == "done"
        assert len(await room.client.invoke_rpc(flow.ids, "f")) == 1
        assert await room.client.start_flow(flow, "f", "long", options) == run_id
        with pytest.raises(dex.FlowAlreadyStartedError):
            await room.client.start_flow(flow, "f", "long")
        found = await room.client.search_flows("ExecutionStatus = 'Completed'", 10)
        assert [each.flow_id for each in found.flows] == ["f"]


async def test_more_closed_flows_than_memory_holds_are_all_known(tmp_path: Path) -> None:
    class Bare(dex.Flow[None]):
        def get_steps(self) -> dex.StepList[None]:
            return dex.StepList[None].empty()

    bare = Bare()
    async with open_room(tmp_path, bare, workers=0) as room:

        async def open_and_close(number: int) -> str:
            run_id = await room.client.start_flow(bare, f"f{number}", None)
            await room.client.stop_flow(f"f{number}")
            return run_id

        run_ids = await asyncio.gather(*(open_and_close(number) for number in range(700)))
        # A search waits for a fold, after which the oldest closed runs leave memory.
        await room.client.search_flows("", 1)
        for number in (0, 1, 350, 699):
            summary = await room.client.describe_flow(f"f{number}")
            assert (summary.run_id, summary.status) == (run_ids[number], dex.FlowStatus.CANCELED)
            with pytest.raises(dex.FlowAlreadyStartedError):
                await room.client.start_flow(bare, f"f{number}", None)


async def test_a_soft_timeout_still_strikes(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions(timeout=timedelta(seconds=1))
        await room.client.start_flow(flow, "f", "long", options)
        await room.restart()
        result = await room.client.wait_for_flow("f", BOUND)
        assert result.error_type is dex.FlowErrorType.FLOW_TIMEOUT


async def test_hundreds_of_unfinished_flows_all_go_on_with_several_workers(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=2) as room:
        ids = [f"f{number}" for number in range(300)]
        for flow_id in ids:
            await room.client.start_flow(flow, flow_id, "long")
        await room.restart()
        await room.call(flow.say, "f0", "x")
        await asyncio.gather(*(room.client.invoke_rpc(flow.say, flow_id, "x") for flow_id in ids))
        await asyncio.gather(*(room.client.invoke_rpc(flow.say, flow_id, "y") for flow_id in ids[1:]))
        results = await asyncio.gather(*(room.client.wait_for_flow(flow_id, BOUND) for flow_id in ids))
        assert {result.status for result in results} == {dex.FlowStatus.COMPLETED}
