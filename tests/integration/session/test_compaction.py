"""Long conversations through the client, on the real engine: summaries, cuts, and what comes without them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dex_agents import (
    AgentSessionClient,
    AgentSessionFlow,
    AgentSessionOptions,
    AgentUsage,
    CompactionPolicy,
    ContextCompacted,
    FrameworkMessage,
    InvalidInputError,
    texts,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelOutputItem,
    ModelRequest,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.wire.events import TurnCompletedEvent
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, build_flow, serve
from tests.oracles.session_view import SessionView, show_snapshot

POLICY = CompactionPolicy(context_window_tokens=1_000)
LONG = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor. " * 8


@function_tool(effect=ToolEffect.READ)
async def look(n: int) -> str:
    """Look."""
    return f"result {n}: {LONG}"


class SummarisingModel:
    """Answers turns with one function and summaries with another, and keeps the requests apart."""

    def __init__(
        self,
        answer: Callable[[ModelRequest], ScriptedModelReply | Awaitable[ScriptedModelReply]] | None = None,
        summarise: Callable[[ModelRequest], ScriptedModelReply] | None = None,
    ) -> None:
        self._answer = answer or self._answer_at_length
        self._summarise = summarise or self._number_the_summary
        self.turns: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ScriptedModelReply | Awaitable[ScriptedModelReply]:
        if request.instructions == texts.CONTEXT_SUMMARY_INSTRUCTIONS:
            self.summaries.append(request)
            return self._summarise(request)
        self.turns.append(request)
        require_valid(request)
        return self._answer(request)

    def _answer_at_length(self, _: ModelRequest) -> ScriptedModelReply:
        return ScriptedModelReply(text=f"answer. {LONG}")

    def _number_the_summary(self, _: ModelRequest) -> ScriptedModelReply:
        return ScriptedModelReply(text=f"summary number {len(self.summaries)}")


def require_valid(request: ModelRequest) -> None:
    """Check what every provider checks: user text first, and the results of a response right behind it."""
    assert isinstance(request.items[0], ModelUserTextItem)
    awaited: list[str] = []
    for item in request.items:
        match item:
            case ModelToolResultItem(model_call_id=model_call_id):
                assert awaited
                assert awaited.pop(0) == model_call_id
            case ModelOutputItem(tool_calls=calls):
                assert not awaited
                awaited = [call.model_call_id for call in calls]
            case ModelUserTextItem(text=text):
                assert not awaited
                assert text.strip()
    assert not awaited


async def _talk(client: AgentSessionClient, *questions: str) -> None:
    await client.start_session("s")
    for question in questions:
        await ask(client, "s", question)


@pytest.mark.parametrize("summary", ["what was said", " "])
async def test_viewers_are_told_of_summaries_and_of_what_they_consumed(tmp_path: Path, summary: str) -> None:
    spent = AgentUsage(output_tokens=7)
    model = SummarisingModel(
        lambda _: ScriptedModelReply(text=f"answer. {LONG}", usage=spent),
        lambda _: ScriptedModelReply(text=summary, usage=spent),
    )
    begin = SessionView()
    async with serve(tmp_path / "a.db", build_flow([look], model, compaction=POLICY)) as client:
        await _talk(client, *(f"question {n}" for n in range(1, 7)))
        middle = await client.get_agent_snapshot("s")
        latest = SessionView(middle)
        await ask(client, "s", "the last one")
        await client.close_session("s")
        async for event in client.events("s"):
            begin.take(event)
        async for event in client.events("s", since=middle):
            latest.take(event)
        snapshot = await client.get_agent_snapshot("s")
    assert model.summaries
    assert begin.screen == latest.screen == show_snapshot(snapshot)


@pytest.mark.requirement("compaction")
async def test_a_summary_takes_the_place_of_older_messages_which_stay_in_the_transcript(
    tmp_path: Path,
) -> None:
    model = SummarisingModel()
    flow = build_flow([look], model, compaction=POLICY)
    async with serve(tmp_path / "a.db", flow) as client:
        await _talk(client, *(f"question {n}" for n in range(1, 9)))
        snapshot = await client.get_agent_snapshot("s")

    assert snapshot.last_turn_outcome == "completed"
    assert snapshot.context_summary is not None
    assert model.summaries
    assert all(request.tools == () for request in model.summaries)
    first = model.turns[-1].items[0]
    assert isinstance(first, ModelUserTextItem)
    assert first.text == f"[Dex] Summary of the earlier conversation:\n{snapshot.context_summary.text}"
    assert all(
        one.text != "question 1" for one in model.turns[-1].items if isinstance(one, ModelUserTextItem)
    )
    assert [one.sequence for one in snapshot.messages] == list(range(1, 17))
    assert [one.text for one in snapshot.messages if one.role == "user"] == [
        f"question {n}" for n in range(1, 9)
    ]
    assert snapshot.usage.model_calls == len(model.turns) + len(model.summaries)
    assert len(model.turns) == 8


async def test_viewers_are_told_of_a_summary(tmp_path: Path) -> None:
    flow = build_flow(script=SummarisingModel(), compaction=POLICY)
    told: list[ContextCompacted] = []
    async with serve(tmp_path / "a.db", flow) as client:
        await _talk(client, *(f"question {n}" for n in range(1, 9)))
        async for event in client.events("s"):
            if isinstance(event, ContextCompacted):
                told.append(event)
            if isinstance(event, TurnCompletedEvent) and event.turn_id == "turn-8":
                break
        summary = (await client.get_agent_snapshot("s")).context_summary
    assert summary is not None
    assert [event.revision for event in told] == list(range(1, summary.revision + 1))
    assert told[-1].covered_through == summary.covered_through


@pytest.mark.requirement("compaction-cumulative")
async def test_a_second_summary_is_made_of_the_first_and_of_what_came_since(tmp_path: Path) -> None:
    model = SummarisingModel()
    async with serve(tmp_path / "a.db", build_flow(script=model, compaction=POLICY)) as client:
        await _talk(client, *(f"question {n}" for n in range(1, 11)))
    assert len(model.summaries) >= 2
    first, second = (ScriptedModelClient.user_texts(request)[0] for request in model.summaries[:2])
    assert "question 1" in first
    assert "summary number 1" in second
    assert "question 1\n" not in second
    covered = [line for text in (first, second) for line in text.splitlines() if line.startswith("User: ")]
    assert covered == [f"User: question {n}" for n in range(1, len(covered) + 1)]


@pytest.mark.case("BR-066")
@pytest.mark.requirement("compaction-cut")
async def test_a_turn_of_many_tool_rounds_is_cut_in_its_middle_between_whole_exchanges(
    tmp_path: Path,
) -> None:
    def thirty_rounds(request: ModelRequest) -> ScriptedModelReply:
        if len(model.turns) <= 30:
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("look", {"n": len(model.turns)}),))
        return ScriptedModelReply(text="done")

    model = SummarisingModel(thirty_rounds)
    async with serve(tmp_path / "a.db", build_flow([look], model, compaction=POLICY)) as client:
        await _talk(client, "look thirty times")
        snapshot = await client.get_agent_snapshot("s")

    assert snapshot.last_turn_outcome == "completed"
    assert len(model.summaries) >= 2
    for request in model.summaries:
        (text,) = ScriptedModelClient.user_texts(request)
        asked = [line for line in text.splitlines() if line.startswith("Assistant called look")]
        answered = [line for line in text.splitlines() if line.startswith("Result of look")]
        assert len(asked) == len(answered) > 0
    # The script's IDs begin anew behind each summary: a record must never take another's place.
    assert len(snapshot.tool_calls) == len({call.tool_call_id for call in snapshot.tool_calls}) == 30
    assert {call.model_call_id for call in snapshot.tool_calls} != {
        call.tool_call_id for call in snapshot.tool_calls
    }
    results = [one.tool_output for one in snapshot.messages if one.role == "tool"]
    assert results == [f"result {n}: {LONG}" for n in range(1, 31)]


@pytest.mark.case("BR-068")
@pytest.mark.requirement("compaction-harmless")
async def test_a_summary_without_text_changes_nothing_and_is_asked_for_again(tmp_path: Path) -> None:
    def calls_a_tool_at_first(request: ModelRequest) -> ScriptedModelReply:
        if len(model.summaries) == 1:
            return ScriptedModelReply(
                tool_calls=(ScriptedToolCall("look", {"n": 1}),), usage=AgentUsage(input_tokens=3)
            )
        return ScriptedModelReply(text="at last")

    model = SummarisingModel(summarise=calls_a_tool_at_first)
    async with serve(tmp_path / "a.db", build_flow([look], model, compaction=POLICY)) as client:
        await client.start_session("s")
        turn = 0
        while not model.summaries:
            turn += 1
            await ask(client, "s", f"question {turn}")
        before = await client.get_agent_snapshot("s")
        await ask(client, "s", "one more")
        after = await client.get_agent_snapshot("s")

    assert (before.context_summary, before.last_turn_outcome) == (None, "completed")
    assert before.tool_calls == ()
    assert before.usage.model_calls == turn + 1
    assert after.context_summary is not None
    assert after.context_summary.text == "at last"
    assert len(model.summaries) == 2


async def test_a_summary_that_fails_changes_nothing_and_the_turn_goes_on(tmp_path: Path) -> None:
    def fail(request: ModelRequest) -> ScriptedModelReply:
        raise ConnectionError("no summary today")

    model = SummarisingModel(summarise=fail)
    async with serve(tmp_path / "a.db", build_flow(script=model, compaction=POLICY)) as client:
        await client.start_session("s")
        while not model.summaries:
            await ask(client, "s", "question")
        snapshot = await client.get_agent_snapshot("s")
    assert (snapshot.context_summary, snapshot.last_turn_outcome) == (None, "completed")


@pytest.mark.requirement("compaction-overflow")
async def test_a_conversation_that_can_not_be_made_to_fit_fails_the_turn_and_not_the_session(
    tmp_path: Path,
) -> None:
    works = False

    def fail_at_first(request: ModelRequest) -> ScriptedModelReply:
        if not works:
            raise ConnectionError("no summary today")
        return ScriptedModelReply(text="short")

    model = SummarisingModel(summarise=fail_at_first)
    async with serve(tmp_path / "a.db", build_flow(script=model, compaction=POLICY)) as client:
        await client.start_session("s")
        while (await ask(client, "s", f"question {LONG}")).last_turn_outcome == "completed":
            pass
        failed = await client.get_agent_snapshot("s")
        works = True
        await ask(client, "s", "and now?")
        after = await client.get_agent_snapshot("s")

    assert failed.last_turn_outcome == "failed"
    assert "does not fit the model" in (failed.last_turn_error or "")
    assert failed.context_summary is None
    assert (after.last_turn_outcome, after.messages[-1].role) == ("completed", "assistant")
    assert after.context_summary is not None


async def test_a_message_that_is_longer_than_the_window_fails_its_turn_alone(tmp_path: Path) -> None:
    model = SummarisingModel()
    async with serve(tmp_path / "a.db", build_flow(script=model, compaction=POLICY)) as client:
        await client.start_session("s")
        too_long = await ask(client, "s", LONG * 20)
        following = await ask(client, "s", "shorter")
    assert too_long.last_turn_outcome == "failed"
    assert following.last_turn_outcome == "completed"


@pytest.mark.requirement("compaction-once")
async def test_a_model_call_that_fails_behind_a_summary_does_not_summarise_again(tmp_path: Path) -> None:
    failed = False

    def fail_once_behind_a_summary(request: ModelRequest) -> ScriptedModelReply:
        nonlocal failed
        if model.summaries and not failed:
            failed = True
            raise ConnectionError("try again")
        return ScriptedModelReply(text=f"answer. {LONG}")

    model = SummarisingModel(fail_once_behind_a_summary)
    async with serve(tmp_path / "a.db", build_flow(script=model, compaction=POLICY)) as client:
        await client.start_session("s")
        while not model.summaries:
            await ask(client, "s", "question")
        snapshot = await client.get_agent_snapshot("s")
    assert failed
    assert snapshot.last_turn_outcome == "completed"
    assert len(model.summaries) == 1


@pytest.mark.requirement("compaction-cut")
@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
async def test_a_turn_that_was_cut_and_could_not_be_finished_leaves_each_call_one_result(
    tmp_path: Path, ending: str
) -> None:
    entered, never = asyncio.Event(), asyncio.Event()

    async def twelve_rounds(request: ModelRequest) -> ScriptedModelReply:
        if len(model.turns) <= 12:
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("look", {"n": len(model.turns)}),))
        if ending == "fails":
            raise ConnectionError("no more")
        entered.set()
        await never.wait()
        return ScriptedModelReply(text="too late")

    model = SummarisingModel(twelve_rounds)
    async with serve(tmp_path / "a.db", build_flow([look], model, compaction=POLICY)) as client:
        await client.start_session("s", first_message="look twelve times")
        if ending == "is cancelled":
            await asyncio.wait_for(entered.wait(), 30)
            assert await client.cancel_turn("s")
        progress = await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")

    assert progress.last_turn_outcome == ("failed" if ending == "fails" else "cancelled")
    assert snapshot.context_summary is not None
    assert len(snapshot.tool_calls) == 12
    results = [one.tool_call_id for one in snapshot.messages if one.role == "tool"]
    assert sorted(str(one) for one in results) == sorted(call.tool_call_id for call in snapshot.tool_calls)
    assert snapshot.messages[-1].role == "note"
    assert not any(one.text == "too late" for one in snapshot.messages)


class _OlderRunner(BuiltinLoopAgentRunner):
    """Stores a lone surrogate, as a version without healing did."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        return FrameworkMessage("user", '{"type":"user_text","text":"bad \\ud99c ' + text + '"}', text=text)


@pytest.mark.case("BR-091")
async def test_a_stored_surrogate_is_no_obstacle_to_compaction(tmp_path: Path) -> None:
    model = SummarisingModel()
    definition = AgentDefinition(name="desk", model=ScriptedModelClient(model))
    flow = AgentSessionFlow(_OlderRunner(definition), "Desk", AgentSessionOptions(compaction=POLICY))
    async with serve(tmp_path / "a.db", flow) as client:
        await _talk(client, *(f"question {n}" for n in range(1, 9)))
        snapshot = await client.get_agent_snapshot("s")
    assert snapshot.context_summary is not None
    for request in model.summaries + model.turns:
        for text in ScriptedModelClient.user_texts(request):
            text.encode()
    assert "bad \ufffd question 1" in ScriptedModelClient.user_texts(model.summaries[0])[0]


def test_a_policy_needs_a_runner_that_can_compact() -> None:
    class Runner:
        run_model_step = execute_deferred_tool_call = build_user_message = None
        build_unfinished_turn_messages = None

    runner: Any = Runner()
    with pytest.raises(TypeError, match="estimate_input_tokens"):
        AgentSessionFlow(runner, "Desk", AgentSessionOptions(compaction=POLICY))
    AgentSessionFlow(runner, "Desk")


def test_something_that_is_no_policy_is_refused_by_name() -> None:
    not_a_policy: Any = {"context_window_tokens": 1_000}
    with pytest.raises(InvalidInputError, match="compaction"):
        AgentSessionOptions(compaction=not_a_policy)
