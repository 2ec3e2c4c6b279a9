"""The run state and the values that a continuation hook may return."""

from __future__ import annotations

from typing import Any

import pytest

from dex_agents import limits
from dex_agents.builtin_loop import (
    AgentDefinition,
    ContinueTurn,
    ScriptedModelClient,
    ScriptedModelReply,
    TurnContinuationContext,
)
from dex_agents.errors import AttemptFailedError, InvalidInputError, RunnerContractError
from dex_agents.runner.outcomes import TurnContinued
from tests.unit.builtin_loop.test_runner_model_step import a_read, calls, converse


async def test_the_run_state_counts_continuations_only_after_a_continued_answer() -> None:
    def go_on(iteration: TurnContinuationContext) -> Any:
        return "default" if iteration.tool_results else ContinueTurn("go on")

    conversation, _ = converse(
        ScriptedModelReply(text="one"),
        ScriptedModelReply(text="two"),
        calls(a_read()),
        ScriptedModelReply(text="three"),
        decide_turn_continuation=go_on,
    )
    states: list[str | None] = []
    for _ in range(4):
        outcome = await conversation.run_model()
        if isinstance(outcome, TurnContinued):
            conversation.framework_run_state = outcome.framework_run_state
        states.append(conversation.framework_run_state)
        for call in conversation.calls:
            conversation.finish_call(call.tool_call_id, "x")
    assert states == [
        '{"model_calls":1,"consecutive_continuations":1}',
        '{"model_calls":2,"consecutive_continuations":2}',
        '{"model_calls":3}',
        '{"model_calls":4,"consecutive_continuations":1}',
    ]


@pytest.mark.parametrize("returned", [None, True, "continue", "", {"action": "continue", "message": "x"}, 1])
async def test_any_other_value_fails_the_attempt(returned: object) -> None:
    def hook(_: TurnContinuationContext) -> object:
        return returned

    conversation, _ = converse(ScriptedModelReply(text="one"), decide_turn_continuation=hook)
    with pytest.raises(RunnerContractError, match="decide_turn_continuation"):
        await conversation.run_model()


async def test_a_blank_message_fails_the_attempt() -> None:
    def hook(_: TurnContinuationContext) -> ContinueTurn:
        return ContinueTurn(" \n")

    conversation, _ = converse(ScriptedModelReply(text="one"), decide_turn_continuation=hook)
    with pytest.raises(AttemptFailedError, match="message"):
        await conversation.run_model()


@pytest.mark.parametrize("message", ["", "\u2003", 3, "x" * (limits.MAX_USER_TEXT_BYTES + 1)])
def test_a_message_that_no_user_could_send_is_refused(message: Any) -> None:
    with pytest.raises(InvalidInputError, match="message"):
        ContinueTurn(message)


@pytest.mark.parametrize("field", ["decide_turn_continuation", "resolve_model"])
def test_a_hook_that_is_no_function_is_refused_with_the_definition(field: str) -> None:
    model = ScriptedModelClient(lambda _: ScriptedModelReply(text="x"))
    not_a_function: dict[str, Any] = {field: "end"}
    with pytest.raises(InvalidInputError, match=field):
        AgentDefinition(name="a", model=model, **not_a_function)
