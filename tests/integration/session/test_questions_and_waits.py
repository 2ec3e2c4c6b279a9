"""Questions and durable waits through the client, on the real engine."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dex_agents import (
    AgentQuestion,
    AgentSessionClient,
    AgentSessionOptions,
    AgentWorker,
    InvalidInputError,
    QuestionOption,
    ToolInputRequested,
    texts,
)
from dex_agents.builtin_loop import ToolCallContext, function_tool
from dex_agents.engine import LocalEngine
from dex_agents.wire.interrupts import InterruptKind
from dex_agents.wire.tool_calls import AgentToolCall, ToolEffect
from tests.integration.session.desk import (
    answers,
    ask,
    asking,
    build_flow,
    serve,
    wait_for_interrupts,
)

COLOUR = {"id": "colour", "question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}
SIZES = {"id": "sizes", "question": "Which sizes?", "multiple": True}


def _asking_user(*questions: dict[str, Any]) -> str:
    return asking(("ask_user", {"questions": list(questions)}))


@pytest.mark.requirement("question-once")
async def test_of_many_equal_answers_one_takes_effect_and_the_model_reads_it(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["ask_user"])
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=_asking_user(COLOUR, SIZES))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert asked.kind == "question"
        assert asked.questions == (
            AgentQuestion("colour", "Which colour?", (QuestionOption("red"), QuestionOption("blue"))),
            AgentQuestion("sizes", "Which sizes?", multiple=True),
        )
        given = {"colour": "深 blue", "sizes": ["S", "M"]}
        replies = (client.answer_question("s", asked.interrupt_id, given) for _ in range(10))
        assert sum(await asyncio.gather(*replies)) == 1
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
    (call,) = snapshot.tool_calls
    assert call.status == "succeeded"
    assert json.loads(call.output or "") == given
    assert snapshot.interrupts == ()


@pytest.mark.requirement("question-exact")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"colour": "red"},
        {"colour": "red", "sizes": []},
        {"colour": " ", "sizes": ["S"]},
        {"colour": ["red", "blue"], "sizes": ["S"]},
        {"colour": "red", "sizes": ["S"], "other": "x"},
        {"colour": "red", "sizes": ["x" * (64 * 1024)]},
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    flow = build_flow(built_in_tools=["ask_user"])
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=_asking_user(COLOUR, SIZES))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        with pytest.raises(InvalidInputError, match="answers"):
            await client.answer_question("s", asked.interrupt_id, given)
        assert (await client.get_progress("s")).interrupts == (asked,)
        assert not await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        assert await client.answer_question("s", asked.interrupt_id, {"colour": "red", "sizes": ["S"]})
        await client.wait_for_idle("s")


async def test_questions_that_can_not_be_asked_are_the_models_own_mistake(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["ask_user", "durable_wait"])
    wrong: list[tuple[str, Any]] = [
        ("ask_user", {"questions": []}),
        ("ask_user", {"questions": [COLOUR, COLOUR]}),
        ("durable_wait", {"reason": "x"}),
        ("durable_wait", {"reason": "x", "seconds": 1, "until": "2027-01-01T00:00:00Z"}),
        ("durable_wait", {"reason": "x", "seconds": -1}),
        ("durable_wait", {"reason": "x", "seconds": 400 * 24 * 3600}),
        ("durable_wait", {"reason": "x", "until": "tomorrow"}),
        ("durable_wait", {"reason": "x", "until": "2027-02-30T00:00:00Z"}),
    ]
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=asking(*wrong))
        await client.wait_for_idle("s")
        calls = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", "hello")
    assert [call.status for call in calls] == ["failed"] * len(wrong)
    assert all((call.error or "").startswith(("invalid questions: ", "invalid wait: ")) for call in calls)


async def test_a_question_that_nobody_answers_in_time_is_answered_with_that(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["ask_user"], interrupt_deadline=timedelta(seconds=1))
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=_asking_user(COLOUR))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        await client.wait_for_idle("s")
        assert not await client.answer_question("s", asked.interrupt_id, {"colour": "red"})
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert json.loads(call.output or "") == {"colour": texts.QUESTION_DEADLINE_PASSED}


@pytest.mark.case("BR-040")
@pytest.mark.requirement("tool-asks")
async def test_a_tool_that_asks_and_writes_in_turns_repeats_neither(tmp_path: Path) -> None:
    written: list[str] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
    async def order(context: ToolCallContext) -> str | ToolInputRequested:
        """Order, asking as it goes."""
        for step in ("size", "colour", "address"):
            if step not in context.answers:
                return ToolInputRequested((AgentQuestion(step, f"{step}?"),), continuation=step)
            if context.continuation == step:
                written.append(f"{step}={context.answers[step]}")
        return "ordered"

    flow = build_flow([order])
    async with LocalEngine(tmp_path / "a.db") as engine:
        address = engine.server_address
        async with AgentSessionClient.connect(flow, server_address=address) as client:
            identifiers: list[str] = []
            calls: list[AgentToolCall] = []
            for step in ("size", "colour", "address"):
                # Each round is served by another Worker.
                async with AgentWorker(flow, server_address=address):
                    if step == "size":
                        await client.start_session("s", first_message=asking(("order", {})))
                    (asked,) = await wait_for_interrupts(client, "s", 1)
                    assert [question.id for question in asked.questions] == [step]
                    identifiers.append(asked.interrupt_id)
                    assert await client.answer_question("s", asked.interrupt_id, {step: step.upper()})
                    if step == "address":
                        await client.wait_for_idle("s")
                        calls += (await client.get_agent_snapshot("s")).tool_calls
                        assert not await client.answer_question("s", identifiers[0], {"size": "again"})
    assert written == ["size=SIZE", "colour=COLOUR", "address=ADDRESS"]
    assert len(set(identifiers)) == 3
    (call,) = calls
    assert (call.status, call.output, call.input_rounds) == ("succeeded", "ordered", 3)


async def test_two_tools_and_the_model_may_ask_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def greet(context: ToolCallContext) -> str | ToolInputRequested:
        """Greet somebody."""
        if "name" not in context.answers:
            return ToolInputRequested((AgentQuestion("name", "Who?"),))
        return f"hello {context.answers['name']}"

    flow = build_flow([greet], built_in_tools=["ask_user"])
    async with serve(tmp_path / "a.db", flow) as client:
        text = asking(("greet", {}), ("ask_user", {"questions": [COLOUR]}), ("greet", {}))
        await client.start_session("s", first_message=text)
        progress = await client.wait_for_attention("s")
        while len(progress.interrupts) < 3:
            progress = await client.wait_for_attention("s")
        by_call = {one.tool_call_id: one for one in progress.interrupts}
        calls = (await client.get_agent_snapshot("s")).tool_calls
        given = ({"name": "A"}, {"colour": "red"}, {"name": "B"})
        for call, answer in zip(reversed(calls), reversed(given), strict=True):
            assert await client.answer_question("s", by_call[call.tool_call_id].interrupt_id, answer)
        await client.wait_for_idle("s")
        assert await answers(client, "s") == ['hello A | {"colour": "red"} | hello B']


@pytest.mark.requirement("durable-wait")
async def test_a_wait_ends_by_itself_and_by_steering(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["durable_wait"])
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session(
            "short", first_message=asking(("durable_wait", {"reason": "r", "seconds": 1}))
        )
        await client.start_session(
            "long",
            first_message=asking(("durable_wait", {"reason": "r", "until": "2027-06-01T00:00:00+02:00"})),
        )
        waiting: list[Any] = []
        while not waiting:
            waiting = [one async for one in client.waiting_sessions("wait") if one.session_id == "long"]
        (wait,) = waiting[0].interrupts
        assert (wait.kind, wait.reason) == ("wait", "r")
        assert wait.until.isoformat() == "2027-05-31T22:00:00+00:00"
        assert [one async for one in client.waiting_sessions()] == []
        await client.wait_for_idle("short")
        assert await client.steer_user_message("long", "go on")
        await client.wait_for_idle("long")
        (short,) = (await client.get_agent_snapshot("short")).tool_calls
        (long,) = (await client.get_agent_snapshot("long")).tool_calls
    assert (short.status, short.output) == ("succeeded", texts.WAIT_IS_OVER)
    assert (long.status, long.error) == ("not_run", texts.WAIT_ENDED_BY_USER)


@pytest.mark.requirement("waiting-sessions")
async def test_sessions_are_found_by_what_they_wait_on_until_they_go_on(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay() -> str:
        """Pay."""
        return "paid"

    flow = build_flow([pay], built_in_tools=["ask_user", "durable_wait"])
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("idle", first_message="hello")
        await client.start_session("pays", first_message=asking(("pay", {})))
        await client.start_session("asks", first_message=_asking_user(COLOUR))
        await client.start_session(
            "waits", first_message=asking(("durable_wait", {"reason": "r", "seconds": 3600}))
        )
        await client.wait_for_idle("idle")
        await wait_for_interrupts(client, "pays", 1)
        (asked,) = await wait_for_interrupts(client, "asks", 1)
        while (await client.get_progress("waits")).interrupts == ():
            await client.get_progress("waits")
        wanted: tuple[tuple[InterruptKind, ...], ...] = (
            ("approval", "question"),
            ("approval",),
            ("question",),
            ("wait",),
            (),
        )
        found = {
            kinds: sorted([one.session_id async for one in client.waiting_sessions(kinds)])
            for kinds in wanted
        }
        assert await client.answer_question("asks", asked.interrupt_id, {"colour": "red"})
        await client.wait_for_idle("asks")
        left = [one.session_id async for one in client.waiting_sessions()]
    assert found == {
        ("approval", "question"): ["asks", "pays"],
        ("approval",): ["pays"],
        ("question",): ["asks"],
        ("wait",): ["waits"],
        (): [],
    }
    assert left == ["pays"]


async def test_cancelling_ends_questions_and_waits_as_not_run(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["ask_user", "durable_wait"], options=AgentSessionOptions())
    async with serve(tmp_path / "a.db", flow) as client:
        text = asking(
            ("ask_user", {"questions": [COLOUR]}), ("durable_wait", {"reason": "r", "seconds": 3600})
        )
        await client.start_session("s", first_message=text)
        asked = next(one for one in await wait_for_interrupts(client, "s", 2) if one.kind == "question")
        assert await client.cancel_turn("s")
        await client.wait_for_idle("s")
        assert not await client.answer_question("s", asked.interrupt_id, {"colour": "red"})
        snapshot = await client.get_agent_snapshot("s")
        await ask(client, "s", "hello")
    assert [call.status for call in snapshot.tool_calls] == ["not_run", "not_run"]
    assert snapshot.interrupts == ()
