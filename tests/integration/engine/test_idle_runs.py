"""Runs that wait leave memory, and go on when something happens to them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, Room, open_room

inbox = dex.Channel("inbox", str)
note = dex.Attribute("note", str)


class Listen(AsyncStep[str]):
    """Waits for a message, then says what it heard before and now."""

    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(inbox.for_one())

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        (heard,) = inbox.results(context)
        if heard == "end":
            return dex.graceful_complete(input)
        note.set(context, input + heard)
        return dex.go_to(Listen, input + heard)


class Nap(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(dex.Timer.by_duration(timedelta(seconds=1)))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        return dex.graceful_complete("awake")


class Conversation(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Listen())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(inbox, note)

    @dex.rpc
    def say(self, context: dex.Context, text: str) -> None:
        inbox.publish(context, text)


class Sleeper(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Nap())


async def evict(room: Room) -> None:
    """A search folds everything committed; with no run kept, that lets every idle one go."""
    await room.client.search_flows("", 1)


@pytest.mark.requirement("engine-idle")
async def test_a_conversation_goes_on_though_its_run_leaves_memory_between_messages(tmp_path: Path) -> None:
    flow = Conversation()
    async with open_room(tmp_path, flow, runs_in_memory=0) as room:
        for flow_id in ("a", "b"):
            await room.client.start_flow(flow, flow_id, "")
        for text in ("1", "2", "3"):
            for flow_id in ("a", "b"):
                await evict(room)
                await room.call(flow.say, flow_id, text)
        for flow_id in ("a", "b"):
            await room.call(flow.say, flow_id, "end")
            assert (await room.client.wait_for_flow(flow_id, BOUND)).single_output(str) == "123"
            await evict(room)
            assert (await room.client.wait_for_flow(flow_id, BOUND)).single_output(str) == "123"


async def test_a_waiter_sees_what_happens_to_a_run_that_nobody_else_holds(tmp_path: Path) -> None:
    flow = Conversation()
    async with open_room(tmp_path, flow, runs_in_memory=0) as room:
        await room.client.start_flow(flow, "a", "")
        await evict(room)
        waiting = asyncio.create_task(room.client.wait_for_flow("a", BOUND))
        await evict(room)
        await room.call(flow.say, "a", "end")
        assert (await waiting).single_output(str) == ""


async def test_timers_and_timeouts_wake_runs_that_have_left_memory(tmp_path: Path) -> None:
    flow, conversation = Sleeper(), Conversation()
    async with open_room(tmp_path, flow, conversation, runs_in_memory=0) as room:
        await room.client.start_flow(flow, "timer", "")
        timeout = dex.StartFlowOptions(timeout=timedelta(seconds=1))
        await room.client.start_flow(conversation, "timeout", "", timeout)
        await evict(room)
        assert (await room.client.wait_for_flow("timer", BOUND)).single_output(str) == "awake"
        result = await room.client.wait_for_flow("timeout", BOUND)
        assert result.error_type is dex.FlowErrorType.FLOW_TIMEOUT


async def test_a_restart_leaves_idle_runs_where_they_are_until_they_are_needed(tmp_path: Path) -> None:
    flow, conversation = Sleeper(), Conversation()
    async with open_room(tmp_path, flow, conversation) as room:
        await room.client.start_flow(conversation, "a", "")
        await room.call(conversation.say, "a", "1")
        await room.client.start_flow(flow, "timer", "")
        await room.restart()
        await room.call(conversation.say, "a", "2")
        await room.call(conversation.say, "a", "end")
        assert (await room.client.wait_for_flow("a", BOUND)).single_output(str) == "12"
        assert (await room.client.wait_for_flow("timer", BOUND)).single_output(str) == "awake"
