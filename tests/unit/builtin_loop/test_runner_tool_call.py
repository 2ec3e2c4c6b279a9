"""One tool call: looked up, checked, run, and its result written down."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from dex_agents import texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    FunctionTool,
    ScriptedModelClient,
    ScriptedModelReply,
    ToolCallContext,
    function_tool,
)
from dex_agents.errors import InvalidInputError, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.runner.outcomes import ToolExecutionResult
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.wire.tool_calls import ToolEffect
from tests.unit.builtin_loop.turns import RecordedEvents, build_execution


def build_runner(*tools: FunctionTool, **definition: Any) -> BuiltinLoopAgentRunner:
    model = ScriptedModelClient(lambda request: ScriptedModelReply(text="ok"))
    return BuiltinLoopAgentRunner(AgentDefinition(name="a", model=model, tools=tools, **definition))


async def run_call(runner: BuiltinLoopAgentRunner, call: DeferredToolExecution) -> str:
    result = await runner.execute_deferred_tool_call(call)
    assert isinstance(result, ToolExecutionResult)
    return result.output


async def execute(tool: FunctionTool, arguments: str = "{}", **changes: Any) -> str:
    return await run_call(build_runner(tool), build_execution(tool.name, arguments, **changes))


def raising(error: BaseException) -> FunctionTool:
    def execute_tool(arguments: dict[str, Any], context: ToolCallContext) -> str:
        raise error

    return function_tool(name="raise_it", description="", parameters={"type": "object"}, execute=execute_tool)


async def test_an_async_function_gets_its_own_types_and_its_context() -> None:
    seen: list[ToolCallContext] = []

    @function_tool
    async def add(first: int, second: float, context: ToolCallContext) -> dict[str, Any]:
        seen.append(context)
        await context.heartbeat('"half"')
        return {"sum": first + second}

    execution = build_execution("add", '{"first": 2.0, "second": 1}', attempt=2, effect=ToolEffect.READ)
    assert await run_call(build_runner(add), execution) == '{"sum": 3.0}'
    (context,) = seen
    for field in (
        "flow_id",
        "turn_id",
        "tool_call_id",
        "idempotency_key",
        "attempt",
        "effect",
        "events",
        "heartbeat",
        "cancelled",
    ):
        assert getattr(context, field) is getattr(execution, field)


async def test_a_sync_function_runs_in_a_thread_and_its_events_arrive_on_the_loop_in_order() -> None:
    loop_thread = threading.current_thread()
    threads: list[threading.Thread] = []

    @function_tool
    def work(context: ToolCallContext) -> str:
        threads.append(threading.current_thread())
        for step in range(3):
            context.events.write_tool_progress(context.tool_call_id, str(step))
        context.events.write_text_delta("t")
        context.events.write_reasoning_delta("r")
        return "done"

    class CheckedEvents(RecordedEvents):
        def write_tool_progress(self, tool_call_id: str, text: str) -> None:
            assert threading.current_thread() is loop_thread
            super().write_tool_progress(tool_call_id, text)

    events = CheckedEvents()
    assert await execute(work, events=events) == "done"
    assert threads != [loop_thread]
    assert events.progress == [("call_1", "0"), ("call_1", "1"), ("call_1", "2")]
    assert (events.text, events.reasoning) == (["t"], ["r"])


async def test_a_sync_function_may_return_an_awaitable() -> None:
    async def answer() -> str:
        return "later"

    def execute_tool(arguments: dict[str, Any], context: ToolCallContext) -> Any:
        return answer()

    tool = function_tool(name="later", description="", parameters={"type": "object"}, execute=execute_tool)
    assert await execute(tool) == "later"


@pytest.mark.case("BR-053")
async def test_a_tool_that_a_deploy_took_away_fails_with_a_clear_text() -> None:
    with pytest.raises(ToolExecutionError) as caught:
        await build_runner().execute_deferred_tool_call(build_execution("refund"))
    assert str(caught.value) == texts.tool_not_available("refund")


@pytest.mark.case("BR-053")
async def test_arguments_that_a_new_schema_refuses_fail_and_the_function_is_not_entered() -> None:
    entered: list[str] = []

    @function_tool
    async def refund(order_id: str) -> str:
        entered.append(order_id)
        return "sent"

    with pytest.raises(ToolExecutionError) as caught:
        await execute(refund, '{"order": "1"}')
    assert str(caught.value) == "invalid arguments: /order: is not a known property; /order_id: is required"
    assert entered == []


async def test_arguments_that_a_new_schema_refuses_are_prepared_again() -> None:
    tool = function_tool(
        name="refund",
        description="",
        parameters={"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        execute=lambda arguments, context: arguments,
        prepare_arguments=lambda arguments: {"id": arguments["order"]},
    )
    assert await execute(tool, '{"order": "1"}') == '{"id": "1"}'


async def test_arguments_that_were_prepared_run_exactly_as_they_were_approved() -> None:
    tool = function_tool(
        name="refund",
        description="",
        parameters={"type": "object", "properties": {"amount": {"type": "integer"}}},
        execute=lambda arguments, context: arguments,
        prepare_arguments=lambda arguments: {"amount": arguments["amount"] * 2},
    )
    assert tool.prepare_arguments('{"amount": 2}') == '{"amount": 4}'
    assert await execute(tool, '{"amount": 4}') == '{"amount": 4}'


@pytest.mark.parametrize("error", [ToolExecutionError("no"), ToolOutcomeUnknownError("maybe")])
async def test_what_a_tool_says_about_its_outcome_passes_through(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await execute(raising(error))
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TypeError("bad"), "TypeError: bad"),
        (ValueError("bad"), "ValueError: bad"),
        (json.JSONDecodeError("bad", "x", 0), "JSONDecodeError: bad: line 1 column 1 (char 0)"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration("end"), "StopIteration: end"),
    ],
)
async def test_an_error_that_the_sdk_would_replace_keeps_its_name_and_text(
    error: BaseException, text: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        await execute(raising(error))
    assert not isinstance(caught.value, ToolExecutionError)
    assert str(caught.value) == text
    assert caught.value.__cause__ is error


async def test_any_other_error_is_a_failed_attempt_as_it_is() -> None:
    error = ConnectionResetError("gone")
    with pytest.raises(ConnectionResetError) as caught:
        await execute(raising(error))
    assert caught.value is error


async def test_cancelling_a_tool_call_passes_through() -> None:
    entered = asyncio.Event()

    @function_tool
    async def wait_for_ever() -> str:
        entered.set()
        await asyncio.Event().wait()
        return "never"

    running = asyncio.create_task(execute(wait_for_ever))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_characters_above_ascii_are_escaped_unless_the_agent_says_otherwise() -> None:
    @function_tool
    async def greet() -> dict[str, str]:
        return {"a": "\u4e16"}

    assert await execute(greet) == '{"a": "\\u4e16"}'
    readable = build_runner(greet, tool_output_ascii=False)
    assert await run_call(readable, build_execution("greet")) == '{"a": "\u4e16"}'


def test_arguments_that_a_person_changed_are_checked_and_run_as_they_wrote_them() -> None:
    @function_tool(prepare_arguments=lambda arguments: {"amount": int(arguments["amount"])})
    async def refund(amount: int) -> str:
        return str(amount)

    runner = build_runner(refund)
    assert runner.prepare_tool_arguments("refund", '{ "amount" : 3 }', None) == '{ "amount" : 3 }'
    assert runner.prepare_tool_arguments("refund", '{"amount": "3"}', None) == '{"amount": 3}'
    with pytest.raises(
        InvalidInputError, match="arguments: they could not be converted: ValueError"
    ) as caught:
        runner.prepare_tool_arguments("refund", '{"amount": "x"}', None)
    assert caught.value.field == "arguments"
    with pytest.raises(InvalidInputError, match="tool_name"):
        runner.prepare_tool_arguments("gone", "{}", None)
