"""Cancelling turns and closing sessions through the client, on the real engine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents import AgentSessionOptions, SessionClosedError, texts
from dex_agents.builtin_loop import ModelRequest, ScriptedModelReply, ToolCallContext, function_tool
from dex_agents.wire.events import SessionClosed, ToolCallStarted, TurnCancelled
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import (
    answers,
    ask,
    asking,
    build_flow,
    obedient,
    serve,
    wait_for_interrupts,
)


async def test_a_cancelled_model_call_is_stopped_and_the_session_goes_on(tmp_path: Path) -> None:
    entered, stopped = asyncio.Event(), asyncio.Event()

    async def script(request: ModelRequest) -> ScriptedModelReply:
        if len(request.items) > 1:
            return obedient(request)
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError("unreachable")

    async with serve(tmp_path / "a.db", build_flow(script=script)) as client:
        await client.start_session("s", first_message="never answered")
        await entered.wait()
        assert not await client.cancel_turn("s", "turn-2")
        assert await client.cancel_turn("s", "turn-1")
        progress = await client.wait_for_idle("s")
        await asyncio.wait_for(stopped.wait(), 30)
        assert not await client.cancel_turn("s")
        await ask(client, "s", "hello again")
        snapshot = await client.get_agent_snapshot("s")
    assert progress.last_turn_outcome == "cancelled"
    assert [(one.role, one.text) for one in snapshot.messages] == [
        ("user", "never answered"),
        ("note", texts.TURN_CANCELLED_NOTE),
        ("user", "hello again"),
        ("assistant", "you said: hello again"),
    ]


@pytest.mark.requirement("cancel-stale")
@pytest.mark.case("BR-038")
async def test_a_question_of_a_cancelled_turn_can_not_be_answered_any_more(tmp_path: Path) -> None:
    ran: list[int] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert await client.cancel_turn("s")
        await client.wait_for_idle("s")
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        assert not await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        snapshot = await client.get_agent_snapshot("s")
        await ask(client, "s", "next")
    assert ran == []
    assert snapshot.interrupts == ()
    assert [(call.status, call.error) for call in snapshot.tool_calls] == [
        ("not_run", texts.tool_call_cancelled())
    ]


@pytest.mark.case("BR-032")
async def test_of_an_approval_and_a_cancellation_at_the_same_instant_the_outcome_is_one(
    tmp_path: Path,
) -> None:
    ran: list[str] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay(context: ToolCallContext) -> str:
        """Pay."""
        ran.append(context.flow_id)
        return "paid"

    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        for n in range(8):
            session = f"s{n}"
            await client.start_session(session, first_message=asking(("pay", {})))
            (asked,) = await wait_for_interrupts(client, session, 1)
            approved, cancelled = await asyncio.gather(
                client.resolve_interrupt(session, asked.interrupt_id, "approve"),
                client.cancel_turn(session),
            )
            await client.wait_for_idle(session)
            (call,) = (await client.get_agent_snapshot(session)).tool_calls
            assert approved or cancelled
            assert approved or call.status == "not_run"
            assert ran.count(session) == (1 if call.status == "succeeded" else 0)
            assert call.status in {"succeeded", "not_run", "outcome_unknown"}
            await ask(client, session, "still there?")


@pytest.mark.case("BR-049")
async def test_running_calls_are_told_and_may_still_end_with_a_known_result(tmp_path: Path) -> None:
    all_running = asyncio.Barrier(3)

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
    async def work(n: int, context: ToolCallContext) -> str:
        """Stop when told."""
        await all_running.wait()
        await context.cancelled.wait()
        return f"stopped {n}"

    async with serve(tmp_path / "a.db", build_flow([work])) as client:
        text = asking(("work", {"n": 1}), ("work", {"n": 2}))
        await client.start_session("s", first_message=text)
        await all_running.wait()
        assert await client.cancel_turn("s")
        progress = await client.wait_for_idle("s")
        calls = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", "next")
    assert progress.last_turn_outcome == "cancelled"
    assert [(call.status, call.output) for call in calls] == [
        ("succeeded", "stopped 1"),
        ("succeeded", "stopped 2"),
    ]


@pytest.mark.requirement("cancel-truth")
async def test_calls_that_do_not_stop_are_recorded_truthfully_when_the_grace_is_over(tmp_path: Path) -> None:
    both_running = asyncio.Barrier(3)
    never = asyncio.Event()

    @function_tool(effect=ToolEffect.READ)
    async def look() -> str:
        """Never end."""
        await both_running.wait()
        await never.wait()
        return ""

    @function_tool(effect=ToolEffect.IDEMPOTENT_WRITE)
    async def write() -> str:
        """Never end."""
        await both_running.wait()
        await never.wait()
        return ""

    options = AgentSessionOptions(cancel_grace=timedelta(seconds=1))
    async with serve(tmp_path / "a.db", build_flow([look, write], options=options)) as client:
        await client.start_session("s", first_message=asking(("look", {}), ("write", {})))
        await both_running.wait()
        assert await client.cancel_turn("s")
        await client.wait_for_idle("s")
        calls = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", "next")
        assert await answers(client, "s") == ["you said: next"]
    assert [call.status for call in calls] == ["not_run", "outcome_unknown"]


@pytest.mark.case("BR-023")
async def test_a_turn_cancelled_right_after_its_calls_were_committed_leaves_a_valid_session(
    tmp_path: Path,
) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def look(context: ToolCallContext) -> str:
        """Stop when told."""
        await context.cancelled.wait()
        return "looked"

    async with serve(tmp_path / "a.db", build_flow([look])) as client:
        await client.start_session("s", first_message=asking(*([("look", "{}")] * 4)))
        async for event in client.events("s"):
            if isinstance(event, ToolCallStarted):
                break
        assert await client.cancel_turn("s")
        await client.wait_for_idle("s")
        await ask(client, "s", "next")
        snapshot = await client.get_agent_snapshot("s")
    assert all(call.is_final for call in snapshot.tool_calls)
    results = [one.tool_call_id for one in snapshot.messages if one.role == "tool"]
    assert results == [call.tool_call_id for call in snapshot.tool_calls]


@pytest.mark.requirement("message-kept")
async def test_closing_ends_a_running_turn_and_keeps_what_nobody_answered(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def stuck(_: ModelRequest) -> ScriptedModelReply:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with serve(tmp_path / "a.db", build_flow(script=stuck)) as client:
        await client.start_session("s", first_message="first")
        await entered.wait()
        await client.send_user_message("s", "second")
        await client.send_user_message("s", "third")
        await client.close_session("s")
        with pytest.raises(SessionClosedError):
            await client.send_user_message("s", "fourth")
        snapshot = await client.get_agent_snapshot("s")
        seen = [type(event) async for event in client.events("s")]
    assert [(one.role, one.text) for one in snapshot.messages] == [
        ("user", "first"),
        ("note", texts.TURN_CANCELLED_NOTE),
        ("user", "second"),
        ("user", "third"),
        ("note", texts.SESSION_CLOSED_NOTE),
    ]
    assert snapshot.queued_messages == ()
    assert (TurnCancelled in seen, seen[-1]) == (True, SessionClosed)


async def test_a_call_that_ends_while_its_turn_is_cancelled_does_not_lead_to_the_model(
    tmp_path: Path,
) -> None:
    entered, gate, model_calls = asyncio.Event(), asyncio.Event(), 0

    @function_tool(effect=ToolEffect.READ)
    async def look() -> str:
        """Look until the test says so."""
        entered.set()
        await gate.wait()
        return "seen"

    def script(request: ModelRequest) -> ScriptedModelReply:
        nonlocal model_calls
        model_calls += 1
        return obedient(request)

    async with serve(tmp_path / "a.db", build_flow([look], script)) as client:
        await client.start_session("s", first_message=asking(("look", {})))
        await entered.wait()
        assert await client.cancel_turn("s")
        gate.set()
        await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
        assert (call.status, call.output, model_calls) == ("succeeded", "seen", 1)
        await ask(client, "s", "hello")
        assert await answers(client, "s") == ["you said: hello"]
