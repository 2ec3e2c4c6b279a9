"""Steering and the queue through the client, on the real engine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents import AgentMessage, AgentSessionOptions, AgentUserMessage, texts
from dex_agents.builtin_loop import (
    ModelOutputItem,
    ModelRequest,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, build_flow, obedient, serve, wait_for_interrupts


def _spoken(messages: tuple[AgentMessage, ...]) -> list[tuple[str, str | None]]:
    return [(message.role, message.text or message.tool_output) for message in messages]


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.mark.requirement("steering-joins")
@pytest.mark.case("BR-020")
async def test_a_steering_message_joins_the_turn_after_the_results_of_the_running_calls(
    tmp_path: Path,
) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()
    requests: list[ModelRequest] = []

    @function_tool(effect=ToolEffect.READ)
    async def fast() -> str:
        """Return at once."""
        return "fast"

    @function_tool(effect=ToolEffect.READ)
    async def slow() -> str:
        """Wait for the test."""
        entered.set()
        await gate.wait()
        return "slow"

    def script(request: ModelRequest) -> ScriptedModelReply:
        requests.append(request)
        if len(requests) == 1:
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("slow"), ScriptedToolCall("fast")))
        return ScriptedModelReply(text="done")

    async with serve(tmp_path / "a.db", build_flow([fast, slow], script)) as client:
        await client.start_session("s", first_message="go")
        await entered.wait()
        assert await client.steer_user_message("s", AgentUserMessage("hurry", "m"))
        assert not await client.steer_user_message("s", AgentUserMessage("hurry", "m"))
        assert [one.steering for one in await client.list_queued_messages("s")] == [True]
        gate.set()
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
    assert snapshot.turn_count == 1
    assert _spoken(snapshot.messages) == [
        ("user", "go"),
        ("assistant", None),
        ("tool", "slow"),
        ("tool", "fast"),
        ("user", "hurry"),
        ("assistant", "done"),
    ]
    assert [message.message_id for message in snapshot.messages if message.text == "hurry"] == ["m"]
    assert [type(item) for item in requests[1].items] == [
        ModelUserTextItem,
        ModelOutputItem,
        ModelToolResultItem,
        ModelToolResultItem,
        ModelUserTextItem,
    ]


@pytest.mark.requirement("steering-ends-waits")
async def test_steering_ends_every_open_approval_and_nobody_can_answer_it_any_more(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1}), ("pay", {"amount": 2})))
        asked = await wait_for_interrupts(client, "s", 2)
        assert await client.steer_user_message("s", "rather not")
        late = [client.resolve_interrupt("s", one.interrupt_id, "approve") for one in asked]
        assert await asyncio.gather(*late) == [False, False]
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
    assert [(call.status, call.error) for call in snapshot.tool_calls] == [
        ("not_run", texts.TOOL_CALL_STEERED)
    ] * 2
    assert snapshot.interrupts == ()
    assert snapshot.turn_count == 1
    assert _spoken(snapshot.messages)[-2:] == [("user", "rather not"), ("assistant", "you said: rather not")]


@pytest.mark.case("BR-043")
async def test_a_steering_message_goes_to_the_running_turn_and_a_queued_one_starts_the_next(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1})))
        await wait_for_interrupts(client, "s", 1)
        assert await client.send_user_message("s", "queued")
        assert await client.steer_user_message("s", "steered")
        await client.wait_for_idle("s")
        messages = (await client.get_agent_snapshot("s")).messages
    said = [(message.turn_id, message.text) for message in messages if message.role == "user"][1:]
    assert said == [("turn-1", "steered"), ("turn-2", "queued")]


@pytest.mark.case("BR-042")
async def test_a_steering_message_at_the_call_limit_begins_the_next_turn_before_anything_queued(
    tmp_path: Path,
) -> None:
    called, may_answer = asyncio.Event(), asyncio.Event()

    async def script(request: ModelRequest) -> ScriptedModelReply:
        called.set()
        await may_answer.wait()
        return obedient(request)

    flow = build_flow(script=script, max_model_calls_per_turn=1)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message="one")
        await called.wait()
        assert await client.send_user_message("s", "queued")
        assert await client.steer_user_message("s", "steered")
        may_answer.set()
        await client.wait_for_idle("s")
        assert await client.steer_user_message("s", "after the end")
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
    said = [(message.turn_id, message.text) for message in snapshot.messages if message.role == "user"]
    assert said == [
        ("turn-1", "one"),
        ("turn-2", "steered"),
        ("turn-3", "queued"),
        ("turn-4", "after the end"),
    ]
    assert snapshot.queued_messages == ()


async def test_a_steering_message_of_a_cancelled_turn_stays_in_its_transcript(tmp_path: Path) -> None:
    entered = asyncio.Event()

    @function_tool(effect=ToolEffect.READ)
    async def endless() -> str:
        """Wait for ever."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    options = AgentSessionOptions(cancel_grace=timedelta(seconds=1))
    async with serve(tmp_path / "a.db", build_flow([endless], options=options)) as client:
        await client.start_session("s", first_message=asking(("endless", {})))
        await entered.wait()
        await client.steer_user_message("s", "stop that")
        assert await client.cancel_turn("s")
        assert await client.steer_user_message("s", "next")
        await client.wait_for_idle("s", timeout=60)
        snapshot = await client.get_agent_snapshot("s")
    texts_by_turn = [(message.turn_id, message.role, message.text) for message in snapshot.messages]
    assert ("turn-1", "user", "stop that") in texts_by_turn
    assert ("turn-2", "user", "next") in texts_by_turn
    assert ("turn-2", "assistant", "you said: next") in texts_by_turn


async def test_a_queued_message_can_be_seen_and_withdrawn_until_a_turn_takes_it(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        for name in ("a", "b", "c"):
            assert await client.send_user_message("s", AgentUserMessage(name, name))
        assert [one.text for one in await client.list_queued_messages("s")] == ["a", "b", "c"]
        withdrawals = [client.withdraw_message("s", "b") for _ in range(5)]
        assert sum(await asyncio.gather(*withdrawals)) == 1
        assert not await client.withdraw_message("s", "unknown")
        await client.resolve_interrupt("s", asked.interrupt_id, "reject")
        await client.wait_for_idle("s")
        assert not await client.withdraw_message("s", "a")
        messages = (await client.get_agent_snapshot("s")).messages
    assert [message.text for message in messages if message.role == "user"][1:] == ["a", "c"]


async def test_steering_and_approving_at_once_leaves_exactly_one_truth(tmp_path: Path) -> None:
    paid: list[int] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def buy(amount: int) -> str:
        """Buy."""
        paid.append(amount)
        return "bought"

    async with serve(tmp_path / "a.db", build_flow([buy])) as client:
        for number in range(10):
            session_id = f"s{number}"
            await client.start_session(session_id, first_message=asking(("buy", {"amount": number})))
            (asked,) = await wait_for_interrupts(client, session_id, 1)
            approved, steered = await asyncio.gather(
                client.resolve_interrupt(session_id, asked.interrupt_id, "approve"),
                client.steer_user_message(session_id, "stop"),
            )
            await client.wait_for_idle(session_id)
            (call,) = (await client.get_agent_snapshot(session_id)).tool_calls
            assert steered
            assert call.status == ("succeeded" if approved else "not_run")
            assert (number in paid) is approved


async def test_a_first_message_that_asks_for_a_plan_is_refused_where_there_is_no_plan_mode(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        with pytest.raises(ValueError, match="plan_mode"):
            await client.send_user_message("s", AgentUserMessage("plan", plan_mode=True))
        await ask(client, "s", "hello")
