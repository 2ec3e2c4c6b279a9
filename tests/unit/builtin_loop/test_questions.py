"""Function tools that ask a person, and those that look up what became of a call."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from dex_agents import texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    FunctionTool,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    ToolCallContext,
    function_tool,
)
from dex_agents.errors import (
    AttemptFailedError,
    RunnerContractError,
    ToolDeclarationError,
    ToolExecutionError,
    ToolOutcomeUnknownError,
)
from dex_agents.runner.outcomes import (
    ToolExecutionResult,
    ToolInputRequested,
    ToolReconciliation,
    ToolTaskStarted,
)
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.wire.interrupts import AgentQuestion
from dex_agents.wire.tool_calls import Answer, ToolEffect
from tests.unit.builtin_loop.turns import Conversation, build_execution


def build_runner(*tools: FunctionTool) -> BuiltinLoopAgentRunner:
    model = ScriptedModelClient(lambda request: ScriptedModelReply(text="ok"))
    return BuiltinLoopAgentRunner(AgentDefinition(name="a", model=model, tools=tools))


def ask(identifier: str, continuation: str = "") -> ToolInputRequested:
    return ToolInputRequested((AgentQuestion(identifier, f"What {identifier}?"),), continuation)


async def run_to_end(
    tool: FunctionTool, call: DeferredToolExecution, answers: dict[str, Answer]
) -> tuple[list[str], ToolExecutionResult]:
    """Run a call as a session does: again with all answers so far after each round of questions."""
    runner, asked = build_runner(tool), list[str]()
    while True:
        outcome = await runner.execute_deferred_tool_call(call)
        if isinstance(outcome, ToolExecutionResult):
            return asked, outcome
        assert isinstance(outcome, ToolInputRequested)
        new = {question.id: answers[question.id] for question in outcome.questions}
        asked.extend(new)
        call = replace(call, answers={**call.answers, **new}, continuation=outcome.continuation)


@pytest.mark.case("BR-040")
@pytest.mark.requirement("questions-of-tools")
async def test_a_tool_that_asks_three_times_and_writes_in_between_repeats_neither() -> None:
    writes: list[str] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def move(item: str, context: ToolCallContext) -> dict[str, Any] | ToolInputRequested:
        answers, done = context.answers, context.continuation or ""
        if "from" not in answers:
            return ask("from")
        if "removed" not in done:
            writes.append(f"remove {item} from {answers['from']}")
        if "to" not in answers:
            return ask("to", "removed")
        if "added" not in done:
            writes.append(f"add {item} to {answers['to']}")
        if "who" not in answers:
            return ask("who", "removed added")
        return {"moved": item, "by": answers["who"]}

    call = build_execution("move", '{"item": "box"}', effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    asked, outcome = await run_to_end(move, call, {"from": "A", "to": "B", "who": ("Ann", "Bo")})
    assert asked == ["from", "to", "who"]
    assert writes == ["remove box from A", "add box to B"]
    assert outcome.output == '{"moved": "box", "by": ["Ann", "Bo"]}'


@pytest.mark.requirement("questions-of-tools")
async def test_the_first_run_of_a_call_has_no_answers_and_no_continuation() -> None:
    seen: list[tuple[Any, Any, str]] = []

    def execute(arguments: dict[str, Any], context: ToolCallContext) -> Any:
        seen.append((context.answers, context.continuation, context.idempotency_key))
        return "named" if context.answers else ask("name")

    tool = function_tool(name="call_it", description="", parameters={"type": "object"}, execute=execute)
    _, outcome = await run_to_end(tool, build_execution("call_it"), {"name": "Ann"})
    assert outcome.output == "named"
    key = "session-1/turn-1/call_1"
    assert seen == [({}, None, key), ({"name": "Ann"}, "", key)]


async def test_only_a_source_may_start_a_task() -> None:
    tool = function_tool(
        name="start",
        description="",
        parameters={"type": "object"},
        execute=lambda arguments, context: ToolTaskStarted("t1"),
    )
    with pytest.raises(ToolOutcomeUnknownError) as caught:
        await build_runner(tool).execute_deferred_tool_call(build_execution("start"))
    assert str(caught.value) == texts.TASK_OF_FUNCTION_TOOL


@pytest.mark.case("BR-053")
async def test_a_write_whose_function_a_deploy_took_away_is_only_failed_when_nothing_was_sent() -> None:
    first = build_execution("pay", effect=ToolEffect.IDEMPOTENT_WRITE)
    for call, error in ((first, ToolExecutionError), (replace(first, attempt=2), ToolOutcomeUnknownError)):
        with pytest.raises(error, match="the tool 'pay' is not available any more"):
            await build_runner().execute_deferred_tool_call(call)


def paying(reconcile: Any) -> FunctionTool:
    return function_tool(
        name="pay",
        description="Pay.",
        parameters={"type": "object", "properties": {"amount": {"type": "integer"}}},
        execute=lambda arguments, context: "paid",
        effect=ToolEffect.NON_IDEMPOTENT_WRITE,
        reconcile=reconcile,
    )


async def look_up(tool: FunctionTool, arguments: str = '{"amount": 3}') -> ToolReconciliation:
    return await build_runner(tool).reconcile_tool_call(build_execution("pay", arguments))


@pytest.mark.requirement("reconcile")
async def test_a_look_up_sees_the_arguments_and_the_key_of_the_call() -> None:
    seen: list[tuple[dict[str, Any], str, bool]] = []

    def reconcile(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        in_thread = threading.current_thread() is not threading.main_thread()
        seen.append((arguments, context.idempotency_key, in_thread))
        return ToolReconciliation.succeeded("paid as 55")

    async def reconcile_async(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        seen.append((arguments, context.idempotency_key, False))
        return ToolReconciliation.failed("no payment has this key")

    assert await look_up(paying(reconcile)) == ToolReconciliation("succeeded", "paid as 55")
    assert await look_up(paying(reconcile_async)) == ToolReconciliation("failed", "no payment has this key")
    key = "session-1/turn-1/call_1"
    assert seen == [({"amount": 3}, key, True), ({"amount": 3}, key, False)]


@pytest.mark.requirement("reconcile")
async def test_without_a_look_up_the_outcome_stays_unknown() -> None:
    def reconcile(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        return ToolReconciliation.succeeded("")

    still_unknown = ToolReconciliation.still_unknown()
    assert await look_up(paying(None)) == still_unknown
    assert await look_up(paying(reconcile), "{broken") == still_unknown
    assert await build_runner().reconcile_tool_call(build_execution("pay")) == still_unknown


async def test_a_look_up_is_not_held_to_a_schema_that_changed_since_the_call() -> None:
    def reconcile(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        return ToolReconciliation.succeeded(arguments["amount"])

    assert (await look_up(paying(reconcile), '{"amount": "three"}')).text == "three"


async def test_a_look_up_that_fails_or_returns_something_else_is_a_failed_attempt() -> None:
    def guess(arguments: dict[str, Any], context: ToolCallContext) -> bool:
        return True

    def break_down(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        raise ValueError("a bug")

    with pytest.raises(RunnerContractError, match="reconcile of tool 'pay' returned a bool"):
        await look_up(paying(guess))
    with pytest.raises(AttemptFailedError, match="ValueError: a bug"):
        await look_up(paying(break_down))


def test_a_look_up_has_to_be_a_function() -> None:
    with pytest.raises(ToolDeclarationError, match="reconcile is not callable"):
        paying("look")


@pytest.mark.requirement("reconcile")
async def test_the_session_is_told_which_calls_can_be_looked_up() -> None:
    @function_tool(reconcile=lambda arguments, context: ToolReconciliation.still_unknown())
    async def pay() -> str:
        return "paid"

    @function_tool
    async def send() -> str:
        return "sent"

    model = ScriptedModelClient(
        lambda request: ScriptedModelReply(tool_calls=(ScriptedToolCall("pay"), ScriptedToolCall("send")))
    )
    conversation = Conversation(
        BuiltinLoopAgentRunner(AgentDefinition(name="a", model=model, tools=(pay, send)))
    )
    conversation.begin_turn("hi")
    calls = (await conversation.ask_for_tools()).tool_calls
    assert [call.reconcilable for call in calls] == [True, False]
