"""Approvals through the client, on the real engine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dex_agents import AgentSessionClient, AgentWorker, InvalidInputError
from dex_agents.builtin_loop import FunctionTool, ToolCallContext, function_tool
from dex_agents.engine import LocalEngine
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import (
    answers,
    ask,
    asking,
    build_flow,
    ordered_write,
    serve,
    wait_for_interrupts,
)


def _payments() -> tuple[list[int], FunctionTool]:
    paid: list[int] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return paid, pay


@pytest.mark.requirement("approvals-together")
@pytest.mark.case("BR-025")
@pytest.mark.case("BR-026")
async def test_several_approvals_wait_at_once_and_are_answered_in_any_order(tmp_path: Path) -> None:
    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(*(("pay", {"amount": n}) for n in (1, 2, 3))))
        first, second, third = await wait_for_interrupts(client, "s", 3)
        assert [json.loads(one.arguments)["amount"] for one in (first, second, third)] == [1, 2, 3]
        decisions = [
            client.resolve_interrupt("s", third.interrupt_id, "approve"),
            client.resolve_interrupt("s", first.interrupt_id, "approve"),
            client.resolve_interrupt("s", second.interrupt_id, "reject", reason="too much"),
        ]
        assert await asyncio.gather(*decisions) == [True, True, True]
        await client.wait_for_idle("s")
        calls = (await client.get_agent_snapshot("s")).tool_calls
        said = await answers(client, "s")
    assert sorted(paid) == [1, 3]
    assert [call.status for call in calls] == ["succeeded", "rejected", "succeeded"]
    assert "Their reason: too much" in (said[0] or "")


@pytest.mark.requirement("approval-once")
@pytest.mark.case("BR-031")
async def test_of_twenty_equal_approvals_one_takes_effect_and_the_tool_runs_once(tmp_path: Path) -> None:
    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 7})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        clicks = (client.resolve_interrupt("s", asked.interrupt_id, "approve") for _ in range(20))
        assert sum(await asyncio.gather(*clicks)) == 1
        await client.wait_for_idle("s")
        assert not await client.resolve_interrupt("s", asked.interrupt_id, "reject")
    assert paid == [7]


@pytest.mark.case("BR-030")
async def test_an_answered_question_never_comes_back_while_its_sibling_runs(tmp_path: Path) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def slow() -> str:
        """Wait for the test."""
        entered.set()
        await gate.wait()
        return "slow"

    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([slow, pay])) as client:
        await client.start_session("s", first_message=asking(("slow", {}), ("pay", {"amount": 1})))
        running, waiting = await wait_for_interrupts(client, "s", 2)
        await client.resolve_interrupt("s", running.interrupt_id, "approve")
        await entered.wait()
        for _ in range(5):
            assert (await client.get_progress("s")).interrupts == (waiting,)
        await client.resolve_interrupt("s", waiting.interrupt_id, "approve")
        gate.set()
        await client.wait_for_idle("s")
        assert (await client.get_progress("s")).interrupts == ()
        assert await answers(client, "s") == ["slow | paid 1"]
    assert paid == [1]


@pytest.mark.case("BR-027")
async def test_answers_survive_a_new_worker_between_them(tmp_path: Path) -> None:
    paid, pay = _payments()
    flow = build_flow([pay])
    async with LocalEngine(tmp_path / "a.db") as engine:
        address = engine.server_address
        async with AgentSessionClient.connect(flow, server_address=address) as client:
            async with AgentWorker(flow, server_address=address):
                text = asking(("pay", {"amount": 1}), ("pay", {"amount": 2}))
                await client.start_session("s", first_message=text)
                first, second = await wait_for_interrupts(client, "s", 2)
                await client.resolve_interrupt("s", first.interrupt_id, "approve")
            async with AgentWorker(flow, server_address=address):
                await client.resolve_interrupt("s", second.interrupt_id, "approve")
                await client.wait_for_idle("s")
    assert sorted(paid) == [1, 2]


@pytest.mark.requirement("approval-durable")
@pytest.mark.case("BR-037")
async def test_an_approval_waits_through_a_restart_of_everything(tmp_path: Path) -> None:
    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 5})))
        (before,) = await wait_for_interrupts(client, "s", 1)
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        (after,) = (await client.get_progress("s")).interrupts
        assert [(one.session_id, one.interrupts) async for one in client.waiting_sessions()] == [
            ("s", (after,))
        ]
        assert await client.resolve_interrupt("s", after.interrupt_id, "approve")
        await client.wait_for_idle("s")
        assert [one async for one in client.waiting_sessions()] == []
    assert before == after
    assert paid == [5]


@pytest.mark.requirement("approval-edited")
async def test_a_person_may_change_the_arguments_and_the_record_says_so(tmp_path: Path) -> None:
    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 100})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        for wrong, problem in (
            ('{"amount": "lots"}', "/amount"),
            ("[1]", "JSON object"),
            ("{", "JSON object"),
        ):
            with pytest.raises(InvalidInputError, match=problem) as caught:
                await client.resolve_interrupt("s", asked.interrupt_id, "approve", arguments=wrong)
            assert caught.value.field == "arguments"
        assert (await client.get_progress("s")).interrupts == (asked,)
        assert await client.resolve_interrupt("s", asked.interrupt_id, "approve", arguments='{"amount": 10}')
        await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert paid == [10]
    assert (call.arguments, call.effective_arguments) == ('{"amount": 100}', '{"amount": 10}')
    assert call.approval is not None
    assert call.approval.edited


@pytest.mark.case("BR-029")
async def test_an_answer_that_names_no_open_question_changes_nothing(tmp_path: Path) -> None:
    paid, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1}), ("pay", {"amount": 2})))
        asked = await wait_for_interrupts(client, "s", 2)
        with pytest.raises(InvalidInputError, match="interrupt_id"):
            await client.resolve_interrupt("s", "", "approve")
        assert not await client.resolve_interrupt("s", "approval:other", "approve")
        assert not await client.resolve_interrupt("s", asked[0].tool_call_id, "approve")
        assert (await client.get_progress("s")).interrupts == asked
    assert paid == []


@pytest.mark.case("BR-046")
async def test_a_message_during_an_approval_waits_and_leaves_the_question_open(tmp_path: Path) -> None:
    _, pay = _payments()
    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 1})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert await client.send_user_message("s", "and another thing")
        progress = await client.get_progress("s")
        assert (progress.interrupts, progress.queued_message_count) == ((asked,), 1)
        await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        await client.wait_for_idle("s")
        assert await answers(client, "s") == ["paid 1", "you said: and another thing"]


async def test_a_rejected_ordered_write_ends_the_questions_after_it(tmp_path: Path) -> None:
    ran: list[str] = []

    async def write(arguments: dict[str, str], _: ToolCallContext) -> str:
        ran.append(arguments["name"])
        return "ok"

    put = ordered_write(write, ToolEffect.NON_IDEMPOTENT_WRITE)
    async with serve(tmp_path / "a.db", build_flow([put])) as client:
        text = asking(*(("put", {"name": name}) for name in "abcd"))
        await client.start_session("s", first_message=text)
        a, b, c, d = await wait_for_interrupts(client, "s", 4)
        assert await client.resolve_interrupt("s", d.interrupt_id, "approve")
        assert await client.resolve_interrupt("s", a.interrupt_id, "approve")
        assert await client.resolve_interrupt("s", b.interrupt_id, "reject")
        await client.wait_for_idle("s")
        assert not await client.resolve_interrupt("s", c.interrupt_id, "approve")
        snapshot = await client.get_agent_snapshot("s")
        await ask(client, "s", "go on")
    assert ran == ["a"]
    assert [call.status for call in snapshot.tool_calls] == ["succeeded", "rejected", "not_run", "not_run"]
    assert snapshot.interrupts == ()
