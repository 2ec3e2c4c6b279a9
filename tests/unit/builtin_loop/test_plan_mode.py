"""Built-in tools, turns that only plan, and the plan in every model call."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from dex_agents import build_plan_note, texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.runner.contract import PollsToolTasks, ReconcilesToolCalls, SupportsPlanMode
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.tools.builtin import ASK_USER, BUILT_IN_TOOLS, DURABLE_WAIT, WRITE_TODOS
from dex_agents.wire.plans import AgentPlan, PlanTodo
from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect, ToolPolicy
from dex_agents.wire.usage import AgentUsage
from tests.unit.builtin_loop.turns import Conversation, RecordedScript
from tests.unit.tool_sources.sources import ListedSource, build_tool

PLAN = AgentPlan(1, "active", (PlanTodo("1", "Look", "in_progress"),))
TODOS = {"todos": [{"task": "Look", "status": "pending"}]}
ANSWER = ScriptedModelReply(text="done")


@function_tool(effect=ToolEffect.READ)
async def look() -> str:
    """Look."""
    return ""


def converse(*replies: ScriptedModelReply, **definition: Any) -> tuple[Conversation, RecordedScript]:
    script = RecordedScript(*replies)
    fields: dict[str, Any] = {"name": "a", "model": ScriptedModelClient(script), "tools": (look,)}
    conversation = Conversation(BuiltinLoopAgentRunner(AgentDefinition(**(fields | definition))))
    conversation.built_in_tools = tuple(BUILT_IN_TOOLS.values())
    conversation.begin_turn("hi")
    return conversation, script


def asking(*names: str) -> ScriptedModelReply:
    return ScriptedModelReply(tool_calls=tuple(ScriptedToolCall(name, TODOS) for name in names))


def names_of(script: RecordedScript) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in script.requests]


def test_the_runner_can_plan_poll_and_look_up() -> None:
    runner = converse()[0].runner
    assert isinstance(runner, SupportsPlanMode)
    assert runner.supports_plan_mode
    assert isinstance(runner, PollsToolTasks)
    assert isinstance(runner, ReconcilesToolCalls)


async def test_built_in_tools_are_offered_as_they_are_and_deferred_as_they_were_asked() -> None:
    broken = ScriptedToolCall("ask_user", "{broken", "m")
    conversation, script = converse(
        ScriptedModelReply(tool_calls=(broken, ScriptedToolCall("durable_wait"), ScriptedToolCall("look")))
    )
    conversation.tool_policies = {"ask_user": ToolPolicy(requires_approval=True)}
    asked, waits, _ = (await conversation.ask_for_tools()).tool_calls
    assert names_of(script) == [["look", "ask_user", "durable_wait", "write_todos"]]
    for offered, tool in zip(
        script.requests[0].tools[1:], (ASK_USER, DURABLE_WAIT, WRITE_TODOS), strict=True
    ):
        assert (offered.name, offered.description, offered.parameters) == (
            tool.name,
            tool.description,
            tool.parameters,
        )
    assert asked == DeferredToolCall(
        tool_call_id="m",
        model_call_id="m",
        tool_name="ask_user",
        arguments="{broken",
        policy=ResolvedToolPolicy(effect=ToolEffect.READ, requires_approval=False),
    )
    assert (waits.refusal, waits.effective_arguments) == (None, None)


async def test_a_built_in_tool_that_the_session_does_not_enable_is_not_offered() -> None:
    conversation, script = converse(asking("ask_user"))
    conversation.built_in_tools = ()
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert names_of(script) == [["look"]]
    assert deferred.refusal == texts.unknown_tool("ask_user", ("look",))


async def test_a_built_in_tool_named_like_a_function_tool_fails_the_turn_before_the_model_call() -> None:
    mine = function_tool(
        name="ask_user", description="", parameters={"type": "object"}, execute=lambda arguments, context: ""
    )
    conversation, script = converse(ANSWER, tools=(mine,))
    outcome = await conversation.complete()
    assert outcome.turn_error == texts.built_in_tool_name_taken("ask_user")
    assert outcome.usage == AgentUsage()
    assert script.requests == []


@pytest.mark.requirement("plan-mode-tools")
async def test_a_turn_that_plans_offers_write_todos_alone_and_refuses_every_other_call() -> None:
    source = ListedSource("s", [build_tool("search")])
    conversation, script = converse(
        asking("write_todos", "look", "search", "ask_user", "no_such_tool"), tool_sources=(source,)
    )
    conversation.interaction_mode = "plan"
    calls = (await conversation.ask_for_tools()).tool_calls
    assert names_of(script) == [["write_todos"]]
    assert [call.refusal for call in calls] == [None, *[texts.PLAN_MODE_NOTHING_ELSE] * 4]
    assert script.requests[0].tool_choice == "auto"


@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_the_planning_tool_choice_holds_until_a_plan_of_the_turn_is_written(
    choice: Literal["auto", "required"],
) -> None:
    conversation, script = converse(
        asking("write_todos"), asking("write_todos"), ANSWER, planning_tool_choice=choice
    )
    conversation.interaction_mode = "plan"
    conversation.plan = PLAN
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", status="failed", error=texts.invalid_todos("x"))
    await conversation.ask_for_tools()
    conversation.finish_call("call_2", "written")
    await conversation.complete()
    assert [request.tool_choice for request in script.requests] == [choice, choice, "auto"]
    assert names_of(script) == [["write_todos"]] * 3


async def test_a_tool_is_required_in_no_other_call() -> None:
    conversation, script = converse(
        asking("write_todos"), ANSWER, ANSWER, planning_tool_choice="required", max_model_calls_per_turn=1
    )
    conversation.interaction_mode = "plan"
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", status="failed", error=texts.invalid_todos("x"))
    await conversation.complete()
    conversation.interaction_mode = "default"
    conversation.begin_turn("go on")
    await conversation.complete()
    assert [(request.tool_choice, len(request.tools)) for request in script.requests] == [
        ("required", 1),
        ("auto", 0),
        ("auto", 4),
    ]


@pytest.mark.requirement("plan-shown")
async def test_the_latest_plan_stands_before_the_messages_of_the_turn_in_every_model_call() -> None:
    conversation, script = converse(ANSWER, asking("look"), ANSWER)
    await conversation.complete()
    conversation.begin_turn("work on it")
    conversation.plan = PLAN
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "seen")
    conversation.plan = AgentPlan(2, "done", (PlanTodo("1", "Look", "completed"),))
    await conversation.complete()
    assert ScriptedModelClient.user_texts(script.requests[0]) == ("hi",)
    for request, plan in ((script.requests[1], PLAN), (script.requests[2], conversation.plan)):
        note = build_plan_note(plan, "default")
        assert ScriptedModelClient.user_texts(request) == ("hi", note, "work on it")
        assert isinstance(request.items[2], ModelUserTextItem)
    assert all("[Dex]" not in (message.text or "") for message in conversation.messages)


async def test_a_turn_that_plans_is_told_so_without_a_plan() -> None:
    conversation, script = converse(ANSWER)
    conversation.interaction_mode = "plan"
    await conversation.complete()
    assert ScriptedModelClient.user_texts(script.requests[0]) == (texts.PLAN_NOTE_PLANNING, "hi")
