from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

first, second = dex.Channel("first", str), dex.Channel("second", str)
state = dex.Attribute("state", str)
scores = dex.AttributeMap("scores", int)
HOUR = timedelta(hours=1)
WAIT = dex.WaitForAttributeOptions(request_timeout=BOUND)


class Listen(AsyncStep[str]):
    """Waits in the way that its input names."""

    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        state.set(context, f"listening {input}")
        match input:
            case "any":
                return dex.Wait.any_of(first.for_one(), second.for_one(), dex.Timer.by_duration(HOUR))
            case "all":
                return dex.Wait.all_of(first.for_one(), second.for_n(2))
            case "pair":
                timer = dex.Timer.by_duration(HOUR, condition_id="t")
                one, two = first.for_one(condition_id="1"), second.for_one(condition_id="2")
                return dex.Wait.any_combination_of(
                    dex.ConditionCombination.of(one, two), dex.ConditionCombination.of(one, timer)
                )
            case "timer":
                return dex.Wait.until(dex.Timer.by_duration(timedelta(seconds=1)))
            case "long timer":
                return dex.Wait.until(dex.Timer.by_duration(HOUR, condition_id="limit"))
            case _:
                return dex.Wait.skip_immediately()

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        heard = [*first.results(context), *second.results(context)] if "timer" not in input else []
        return dex.graceful_complete(",".join(heard))


class Listening(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Listen())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(first, second, state, scores)

    @dex.rpc
    def say(self, context: dex.Context, words: list[str]) -> None:
        (first if words[0] == "first" else second).publish(context, words[1])

    @dex.rpc(load_channels=(first, second))
    def pending(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        messages = [*first.pending_messages(context), *second.pending_messages(context)]
        return dex.RPCResult([message.value for message in messages])

    @dex.rpc
    def score(self, context: dex.Context, name: str) -> None:
        scores.set(context, name, 10)


flow = Listening()


async def test_the_first_message_ends_a_wait_for_any(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "any")
        await room.client.invoke_rpc(flow.say, "f", ["second", "hello"])
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "hello"


async def test_a_wait_for_all_takes_nothing_before_everything_is_there(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "all")
        await room.client.wait_for_attribute_match(
            "f", state, dex.AttributeMatch[str].equal_to("listening all"), WAIT
        )
        await room.client.invoke_rpc(flow.say, "f", ["first", "a"])
        await room.client.invoke_rpc(flow.say, "f", ["second", "b"])
        assert await room.client.invoke_rpc(flow.pending, "f") == ["a", "b"]
        await room.client.invoke_rpc(flow.say, "f", ["second", "c"])
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "a,b,c"


async def test_a_combination_is_chosen_by_what_holds_first(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "pair")
        await room.client.wait_for_attribute_match(
            "f", state, dex.AttributeMatch[str].equal_to("listening pair"), WAIT
        )
        await room.client.invoke_rpc(flow.say, "f", ["first", "a"])
        assert await room.client.invoke_rpc(flow.pending, "f") == ["a"]
        await room.client.skip_timer("f", dex.StepExecutionId("Listen"), dex.TimerId(condition_id="t"))
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "a"


async def test_a_timer_fires(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        assert (await room.run(flow, "f", "timer")).status is dex.FlowStatus.COMPLETED


async def test_a_skipped_timer_ends_its_wait(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "long timer")
        await room.client.wait_for_attribute_match(
            "f", state, dex.AttributeMatch[str].equal_to("listening long timer"), WAIT
        )
        with pytest.raises(dex.DexServiceError, match="no such timer"):
            await room.client.skip_timer(
                "f", dex.StepExecutionId("Listen"), dex.TimerId(condition_id="unknown")
            )
        await room.client.skip_timer("f", dex.StepExecutionId("Listen"), dex.TimerId(condition_id="limit"))
        assert (await room.client.wait_for_flow("f", BOUND)).status is dex.FlowStatus.COMPLETED


async def test_a_step_completion_can_be_awaited_before_and_after_the_fact(tmp_path: Path) -> None:
    options = dex.WaitForStepCompletionOptions(request_timeout=BOUND)
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "nothing")
        await room.client.wait_for_step_completion("f", dex.StepExecutionId("Listen"), options)
        await room.client.wait_for_flow("f", BOUND)
        await room.client.wait_for_step_completion("f", dex.StepExecutionId("Listen"), options)
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await room.client.wait_for_step_completion("f", dex.StepExecutionId("Listen", 2), options)


async def test_an_instance_of_an_attribute_map_can_be_awaited(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "any")
        await room.client.invoke_rpc(flow.score, "f", "ann  co")
        matched = await room.client.wait_for_attribute_match(
            "f",
            scores,
            "ann  co",
            dex.AttributeMatch[int].greater_than(9),
            WAIT,
        )
        assert matched == 10


async def test_a_wait_that_sees_nothing_ends_with_its_budget(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "any")
        second_long = dex.WaitForAttributeOptions(request_timeout=timedelta(seconds=1))
        with pytest.raises(dex.RequestTimeoutError):
            await room.client.wait_for_attribute_match(
                "f", state, dex.AttributeMatch[str].equal_to("never"), second_long
            )
        with pytest.raises(dex.LongPollTimeoutError):
            await room.client.wait_for_flow("f", timedelta(seconds=1))


async def test_waiting_for_an_unknown_flow_fails_at_once(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        with pytest.raises(dex.FlowNotFoundError):
            await room.client.wait_for_flow("nobody", BOUND)
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await room.client.wait_for_attribute_match(
                "nobody", state, dex.AttributeMatch[str].equal_to("x"), WAIT
            )
