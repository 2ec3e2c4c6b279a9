"""Ending and continuing turns, every row of the table, through the client on the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dex_agents import AgentSessionClient, AgentSnapshot, limits
from dex_agents.builtin_loop import (
    MAX_CONSECUTIVE_TURN_CONTINUATIONS,
    ContinueTurn,
    ModelOutputItem,
    ModelRequest,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    TurnContinuationContext,
    function_tool,
)
from dex_agents.wire.events import (
    ModelCompleted,
    ModelStarted,
    TurnCompletedEvent,
    TurnFailed,
    TurnStarted,
)
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, build_flow, obedient, serve


@function_tool(effect=ToolEffect.READ)
async def look(n: int) -> str:
    """Look."""
    return f"result {n}"


class _Counted:
    """A script that keeps the requests it answered."""

    def __init__(self, script: Callable[[ModelRequest], ScriptedModelReply] = obedient) -> None:
        self._script = script
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ScriptedModelReply:
        self.requests.append(request)
        return self._script(request)


def _shown(snapshot: AgentSnapshot) -> list[tuple[str, str | None]]:
    return [(one.role, one.text or one.tool_output) for one in snapshot.messages]


async def _run(
    database: Path, hook: Any, text: str, script: Callable[[ModelRequest], ScriptedModelReply] = obedient
) -> tuple[AgentSnapshot, _Counted]:
    counted = _Counted(script)
    flow = build_flow([look], counted, decide_turn_continuation=hook)
    async with serve(database, flow) as client:
        await client.start_session("s")
        await ask(client, "s", text)
        return await client.get_agent_snapshot("s"), counted


@pytest.mark.requirement("turn-continuation")
async def test_ending_after_tools_completes_with_the_results_and_without_a_model_call(tmp_path: Path) -> None:
    seen: list[TurnContinuationContext] = []

    def end_after_tools(iteration: TurnContinuationContext) -> str:
        seen.append(iteration)
        return "end" if iteration.tool_results else "default"

    snapshot, model = await _run(tmp_path / "a.db", end_after_tools, asking(("look", {"n": 7})))

    assert len(model.requests) == 1
    assert snapshot.usage.model_calls == 1
    assert snapshot.last_turn_outcome == "completed"
    assert _shown(snapshot)[1:] == [("assistant", None), ("tool", "result 7")]
    (iteration,) = seen
    assert (iteration.flow_id, iteration.turn_id, iteration.session_settings) == ("s", "turn-1", {})
    assert [(one.tool_name, one.output) for one in iteration.tool_results] == [("look", "result 7")]
    assert [call.status for call in iteration.tool_calls] == ["succeeded"]
    assert [call.tool_name for call in iteration.model_output[0].tool_calls] == ["look"]


async def test_ending_after_tools_is_a_model_step_like_any_other_to_a_viewer(tmp_path: Path) -> None:
    def end_after_tools(iteration: TurnContinuationContext) -> str:
        return "end" if iteration.tool_results else "default"

    flow = build_flow([look], decide_turn_continuation=end_after_tools)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=asking(("look", {"n": 1})))
        await client.wait_for_idle("s")
        kinds = await _kinds_of_a_turn(client)
    model_step = [ModelStarted, ModelCompleted]
    assert kinds == [TurnStarted, *model_step, *model_step, TurnCompletedEvent]


async def _kinds_of_a_turn(client: AgentSessionClient) -> list[type]:
    shown = (TurnStarted, ModelStarted, ModelCompleted, TurnCompletedEvent, TurnFailed)
    kinds: list[type] = []
    async for event in client.events("s"):
        if isinstance(event, shown):
            kinds.append(type(event))
        if isinstance(event, TurnCompletedEvent | TurnFailed):
            return kinds
    return kinds


@pytest.mark.requirement("turn-continuation")
async def test_continuing_after_tools_puts_the_message_behind_the_results(tmp_path: Path) -> None:
    def add_a_word(iteration: TurnContinuationContext) -> Any:
        return ContinueTurn("Mind the gap.") if iteration.tool_results else "default"

    def answer(request: ModelRequest) -> ScriptedModelReply:
        if isinstance(request.items[-1], ModelUserTextItem) and request.items[-1].text == "Mind the gap.":
            return ScriptedModelReply(text="minded")
        return obedient(request)

    snapshot, model = await _run(tmp_path / "a.db", add_a_word, asking(("look", {"n": 1})), answer)

    assert len(model.requests) == 2
    assert [type(item).__name__ for item in model.requests[1].items] == [
        "ModelUserTextItem",
        "ModelOutputItem",
        "ModelToolResultItem",
        "ModelUserTextItem",
    ]
    assert _shown(snapshot)[2:] == [
        ("tool", "result 1"),
        ("user", "Mind the gap."),
        ("assistant", "minded"),
    ]
    assert {message.turn_id for message in snapshot.messages} == {"turn-1"}


@pytest.mark.requirement("turn-continuation")
async def test_default_after_tools_and_after_an_answer_is_as_without_a_hook(tmp_path: Path) -> None:
    async def default(_: TurnContinuationContext) -> str:
        return "default"

    text = asking(("look", {"n": 1}), ("look", {"n": 2}))
    with_hook, _ = await _run(tmp_path / "a.db", default, text)
    without, _ = await _run(tmp_path / "b.db", None, text)
    assert _shown(with_hook) == _shown(without)
    assert [one.framework_item for one in with_hook.messages] == [
        one.framework_item for one in without.messages
    ]


@pytest.mark.requirement("turn-continuation")
async def test_ending_after_an_answer_completes_the_turn(tmp_path: Path) -> None:
    def end(_: TurnContinuationContext) -> str:
        return "end"

    snapshot, model = await _run(tmp_path / "a.db", end, "hello")
    assert len(model.requests) == 1
    assert (snapshot.last_turn_outcome, _shown(snapshot)[-1]) == (
        "completed",
        ("assistant", "you said: hello"),
    )


@pytest.mark.requirement("turn-continuation")
async def test_continuing_after_an_answer_stores_both_and_calls_the_model_again(tmp_path: Path) -> None:
    async def until_decided(iteration: TurnContinuationContext) -> Any:
        said = "".join(item.text for item in iteration.model_output)
        return "default" if "DECISION" in said else ContinueTurn("Finish with a DECISION.")

    def decide_when_told(request: ModelRequest) -> ScriptedModelReply:
        if len(ScriptedModelClient.user_texts(request)) > 1:
            return ScriptedModelReply(text="DECISION: yes")
        return ScriptedModelReply(text="well")

    snapshot, model = await _run(tmp_path / "a.db", until_decided, "may I?", decide_when_told)

    assert len(model.requests) == 2
    assert [type(item) for item in model.requests[1].items] == [
        ModelUserTextItem,
        ModelOutputItem,
        ModelUserTextItem,
    ]
    assert _shown(snapshot) == [
        ("user", "may I?"),
        ("assistant", "well"),
        ("user", "Finish with a DECISION."),
        ("assistant", "DECISION: yes"),
    ]
    assert {message.turn_id for message in snapshot.messages} == {"turn-1"}
    assert (snapshot.usage.model_calls, snapshot.last_turn_outcome) == (2, "completed")


@pytest.mark.requirement("turn-continuation-limit")
async def test_the_ninth_continuation_in_a_row_fails_the_turn_with_its_answer_stored(tmp_path: Path) -> None:
    def never_enough(_: TurnContinuationContext) -> ContinueTurn:
        return ContinueTurn("again")

    counted = _Counted(lambda request: ScriptedModelReply(text=f"answer {len(request.items)}"))
    flow = build_flow(script=counted, decide_turn_continuation=never_enough)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message="go")
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
        kinds = await _kinds_of_a_turn(client)

    calls = MAX_CONSECUTIVE_TURN_CONTINUATIONS + 1
    assert len(counted.requests) == calls
    assert [role for role, _ in _shown(snapshot)] == ["user", "assistant"] * calls
    assert snapshot.last_turn_outcome == "failed"
    assert snapshot.last_turn_error == (
        "the turn reached its limit of 8 consecutive continuations without a tool call"
    )
    assert kinds[-1] is TurnFailed


@pytest.mark.requirement("turn-continuation-limit")
async def test_a_tool_call_begins_the_count_of_continuations_anew(tmp_path: Path) -> None:
    def never_enough(iteration: TurnContinuationContext) -> Any:
        return "default" if iteration.tool_results else ContinueTurn("again")

    def tools_now_and_then(request: ModelRequest) -> ScriptedModelReply:
        answers = [item for item in request.items if isinstance(item, ModelOutputItem)]
        if len(answers) == 5:
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("look", {"n": 1}),))
        return ScriptedModelReply(text="hm")

    snapshot, model = await _run(tmp_path / "a.db", never_enough, "go", tools_now_and_then)

    # Five continued answers, the call, then eight continued ones and the one that is too many.
    assert len(model.requests) == 5 + 1 + MAX_CONSECUTIVE_TURN_CONTINUATIONS + 1
    assert snapshot.last_turn_outcome == "failed"


async def test_a_continued_call_counts_toward_the_limit_of_model_calls(tmp_path: Path) -> None:
    def twice(iteration: TurnContinuationContext) -> Any:
        return "default" if "two" in iteration.model_output[0].text else ContinueTurn("again")

    counted = _Counted(lambda request: ScriptedModelReply(text="two" if len(request.items) > 2 else "one"))
    flow = build_flow([look], counted, decide_turn_continuation=twice, max_model_calls_per_turn=1)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message="go")
        await client.wait_for_idle("s")
    assert [bool(request.tools) for request in counted.requests] == [True, False]


async def test_a_hook_that_fails_is_asked_again_and_fails_the_turn_in_the_end(tmp_path: Path) -> None:
    calls = 0

    def broken(_: TurnContinuationContext) -> str:
        nonlocal calls
        calls += 1
        raise ValueError("no idea")

    snapshot, model = await _run(tmp_path / "a.db", broken, "hello")
    assert calls == len(model.requests) == limits.MAX_MODEL_CALL_ATTEMPTS
    assert snapshot.last_turn_outcome == "failed"
    assert "ValueError: no idea" in (snapshot.last_turn_error or "")


async def test_a_hook_that_failed_once_gets_the_same_iteration_again(tmp_path: Path) -> None:
    seen: list[str] = []

    def fails_once(iteration: TurnContinuationContext) -> str:
        seen.append(json.dumps([one.output for one in iteration.tool_results]))
        if len(seen) == 1:
            raise RuntimeError("not yet")
        return "end"

    snapshot, model = await _run(tmp_path / "a.db", fails_once, asking(("look", {"n": 3})))
    assert seen == ['["result 3"]'] * 2
    assert len(model.requests) == 1
    assert snapshot.last_turn_outcome == "completed"
