"""Tools of sources in the loop: offered in every model call, checked, deferred and run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dex_agents import texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.errors import AttemptFailedError, InvalidInputError, ToolExecutionError
from dex_agents.runner.outcomes import DeferredToolCall, ToolExecutionResult, ToolReconciliation
from dex_agents.tools.builtin import ASK_USER
from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect, ToolPolicy
from tests.unit.builtin_loop.turns import Conversation, RecordedScript, build_execution
from tests.unit.tool_sources.sources import (
    DecidingSource,
    ListedSource,
    PollingSource,
    build_tool,
    fail_to_list,
)

TEXT: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


@function_tool(effect=ToolEffect.READ)
async def own() -> str:
    """A tool of the agent itself."""
    return "own"


def converse(
    *sources: ListedSource, replies: Sequence[ScriptedModelReply] = (), **definition: Any
) -> tuple[Conversation, RecordedScript]:
    script = RecordedScript(*replies)
    fields: dict[str, Any] = {"name": "a", "model": ScriptedModelClient(script), "tools": (own,)}
    fields |= {"tool_sources": sources} | definition
    conversation = Conversation(BuiltinLoopAgentRunner(AgentDefinition(**fields)))
    conversation.begin_turn("hi")
    return conversation, script


def calling(name: str, arguments: Any = None) -> ScriptedModelReply:
    return ScriptedModelReply(tool_calls=(ScriptedToolCall(name, {} if arguments is None else arguments),))


ANSWER = ScriptedModelReply(text="done")


async def test_tools_are_listed_anew_for_every_model_call_after_the_agents_own() -> None:
    source = ListedSource("mail", [build_tool("search")])
    conversation, script = converse(source, replies=[calling("search"), ANSWER])
    conversation.built_in_tools = (ASK_USER,)
    await conversation.ask_for_tools()
    source.tools = [build_tool("search"), build_tool("send")]
    conversation.finish_call("call_1", "found")
    await conversation.complete()
    assert [[tool.name for tool in request.tools] for request in script.requests] == [
        ["own", "ask_user", "search"],
        ["own", "ask_user", "search", "send"],
    ]


@pytest.mark.requirement("tool-names-unique")
async def test_a_source_gets_no_name_that_the_agent_or_its_session_has() -> None:
    names = ("own", "ask_user", "search")
    source = ListedSource("mail", [build_tool(name, description="of the source") for name in names])
    conversation, script = converse(source, replies=[ANSWER])
    conversation.built_in_tools = (ASK_USER,)
    await conversation.complete()
    assert [(tool.name, tool.description == "of the source") for tool in script.requests[0].tools] == [
        ("own", False),
        ("ask_user", False),
        ("search", True),
    ]


@pytest.mark.requirement("source-down")
async def test_a_source_that_is_down_takes_its_tools_away_and_the_turn_goes_on() -> None:
    down = ListedSource("mail", (), fail_to_list(ConnectionError("refused")))
    conversation, script = converse(down, ListedSource("files", [build_tool("read")]), replies=[ANSWER])
    await conversation.complete()
    assert [tool.name for tool in script.requests[0].tools] == ["own", "read"]


@pytest.mark.requirement("source-down")
async def test_a_call_of_a_tool_that_was_listed_before_still_finds_its_source() -> None:
    source = ListedSource("mail", [build_tool("search", parameters=TEXT)])
    replies = [calling("search", {"q": "a"}), calling("search", {"q": "b"}), calling("search", {"q": 3})]
    conversation, script = converse(source, replies=replies)
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "found")
    source.lister = fail_to_list(ConnectionError("refused"))
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert [tool.name for tool in script.requests[1].tools] == ["own"]
    assert (deferred.tool_source_reference, deferred.refusal) == ("mail", None)
    conversation.finish_call("call_2", "found")
    (refused,) = (await conversation.ask_for_tools()).tool_calls
    assert refused.refusal == texts.invalid_arguments("/q: expected string, got integer")


async def test_the_call_that_must_end_the_turn_asks_no_source() -> None:
    asked: list[str] = []

    async def lister() -> list[Any]:
        asked.append("listed")
        return [build_tool("search")]

    conversation, script = converse(
        ListedSource("mail", [build_tool("search")], lister),
        replies=[calling("search"), ANSWER],
        max_model_calls_per_turn=1,
    )
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "found")
    await conversation.complete()
    assert [len(request.tools) for request in script.requests] == [2, 0]
    assert asked == ["listed"]


async def test_a_call_is_deferred_as_its_source_declares_it() -> None:
    tool = build_tool("send", effect=ToolEffect.IDEMPOTENT_WRITE, ordered=True, reference="v2/send")
    reply = calling("send", '{"q" : 1, "q2": "\\ud800"}')
    conversation, _ = converse(ListedSource("mail", [tool]), replies=[reply])
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert deferred == DeferredToolCall(
        tool_call_id="call_1",
        model_call_id="call_1",
        tool_name="send",
        arguments='{"q" : 1, "q2": "\\ud800"}',
        effective_arguments='{"q": 1, "q2": "\\ufffd"}',
        policy=ResolvedToolPolicy(effect=ToolEffect.IDEMPOTENT_WRITE, requires_approval=False),
        ordered=True,
        tool_source_reference="mail:v2/send",
    )


async def test_the_refusal_of_a_source_stands_whatever_else_is_wrong() -> None:
    def decide(call: DeferredToolCall) -> DeferredToolCall:
        return msgspec.structs.replace(call, refusal="not for this user")

    source = DecidingSource("s", [build_tool("look", parameters=TEXT)], decide=decide)
    conversation, _ = converse(source, replies=[calling("look")])
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert deferred.refusal == "not for this user"


async def test_a_policy_may_name_a_tool_that_a_source_lists() -> None:
    policies = {"send": ToolPolicy(requires_approval=True)}
    conversation, _ = converse(
        ListedSource("mail", [build_tool("send")]), replies=[calling("send")], tool_policies=policies
    )
    conversation.tool_policies = policies
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert deferred.policy == ResolvedToolPolicy(effect=ToolEffect.READ, requires_approval=True)


REFERENCES: dict[str, Any] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node", "description": "where to begin"}},
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"$ref": "#/$defs/name"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
        },
        "name": {"type": "string", "minLength": 1},
    },
}
ALL_OF: dict[str, Any] = {
    "type": "object",
    "allOf": [{"$ref": "#/$defs/named"}, {"properties": {"size": {"type": "integer"}}}],
    "$defs": {"named": {"type": "object", "required": ["name"]}},
}
ROOT_RELATIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"from": {"type": "string", "minLength": 1}, "to": {"$ref": "#/properties/from"}},
}


@pytest.mark.case("BR-094")
@pytest.mark.case("BR-095")
@pytest.mark.case("BR-097")
@pytest.mark.parametrize(
    ("parameters", "arguments", "problem"),
    [
        (REFERENCES, '{"root": {"name": "a", "children": [{"name": "b"}]}}', None),
        (REFERENCES, '{"root": {"name": "a", "children": [{}]}}', "/root/children/0/name: is required"),
        (REFERENCES, '{"root": {"name": ""}}', "/root/name: must have at least 1 characters"),
        (ALL_OF, '{"name": "a", "size": 3}', None),
        (ALL_OF, '{"size": 3}', "/name: is required"),
        (ALL_OF, '{"name": "a", "size": "3"}', "/size: expected integer, got string"),
        (ROOT_RELATIVE, '{"from": "a", "to": "b"}', None),
        (ROOT_RELATIVE, '{"from": "a", "to": ""}', "/to: must have at least 1 characters"),
        (TEXT, "[1]", texts.ARGUMENTS_NOT_AN_OBJECT),
        (TEXT, '{"q": "a', texts.arguments_cut_off(1, 9)),
    ],
)
async def test_arguments_are_checked_against_the_listed_schema_which_is_offered_unchanged(
    parameters: dict[str, Any], arguments: str, problem: str | None
) -> None:
    source = ListedSource("s", [build_tool("look", parameters=parameters)])
    conversation, script = converse(source, replies=[calling("look", arguments)])
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert script.requests[0].tools[1].parameters is parameters
    assert deferred.refusal == (None if problem is None else texts.invalid_arguments(problem))


@pytest.mark.case("BR-096")
@pytest.mark.requirement("source-schema")
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"q": {"$ref": "#/$defs/gone"}}},
        {"type": "object", "properties": {"q": {"$ref": "https://example.com/schema.json"}}},
        {"type": "object", "properties": {"q": {"type": "no such type"}}},
    ],
)
async def test_a_schema_that_does_not_compile_is_offered_and_checks_nothing(
    parameters: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tools = [build_tool("odd", parameters=parameters), build_tool("look", parameters=TEXT)]
    reply = ScriptedModelReply(
        tool_calls=(
            ScriptedToolCall("odd", {"q": [1]}),
            ScriptedToolCall("odd", "[]"),
            ScriptedToolCall("look"),
        )
    )
    conversation, script = converse(ListedSource("s", tools), replies=[reply, ANSWER])
    with caplog.at_level(logging.WARNING):
        odd, no_object, look = (await conversation.ask_for_tools()).tool_calls
        for call in (odd, no_object, look):
            conversation.finish_call(call.tool_call_id, "x")
        await conversation.complete()
    assert script.requests[0].tools[1].parameters is parameters
    assert odd.refusal is None
    assert no_object.refusal == texts.invalid_arguments(texts.ARGUMENTS_NOT_AN_OBJECT)
    assert look.refusal == texts.invalid_arguments("/q: is required")
    (warning,) = caplog.messages
    assert warning.startswith(
        "the arguments of tool 'odd' of source 's' go unchecked, its schema cannot be used:"
    )


async def test_a_schema_that_changes_is_checked_as_it_is_now() -> None:
    source = ListedSource("s", [build_tool("look", parameters=TEXT)])
    conversation, _ = converse(source, replies=[calling("look", {"q": 3}), calling("look", {"q": 3})])
    (before,) = (await conversation.ask_for_tools()).tool_calls
    source.tools = [build_tool("look", parameters=TEXT | {"properties": {"q": {"type": "integer"}}})]
    (after,) = (await conversation.ask_for_tools()).tool_calls
    assert (before.refusal is None, after.refusal) == (False, None)


@pytest.mark.case("BR-054")
async def test_an_unknown_tool_is_answered_with_the_names_of_all_that_are_offered() -> None:
    conversation, _ = converse(ListedSource("s", [build_tool("look")]), replies=[calling("get_dat")])
    conversation.built_in_tools = (ASK_USER,)
    (deferred,) = (await conversation.ask_for_tools()).tool_calls
    assert deferred.refusal == ("there is no tool named 'get_dat'; available tools: own, ask_user, look")


async def test_calls_beyond_the_limit_of_a_response_are_not_run_whatever_is_wrong_with_them() -> None:
    reply = ScriptedModelReply(tool_calls=tuple(ScriptedToolCall("look", {"q": n}) for n in range(130)))
    conversation, _ = converse(ListedSource("s", [build_tool("look", parameters=TEXT)]), replies=[reply])
    calls = (await conversation.ask_for_tools()).tool_calls
    assert [call.refusal is not None for call in calls] == [True] * 128 + [False] * 2
    assert {call.not_run_reason for call in calls[128:]} == {texts.tool_call_beyond_response_limit(128)}


@pytest.mark.requirement("source-routing")
async def test_calls_polls_cancellations_and_look_ups_go_to_the_source() -> None:
    plain, jobs = ListedSource("mail", [build_tool("search")]), PollingSource("jobs")
    runner = converse(plain, jobs)[0].runner
    call = build_execution("search", tool_source_reference="mail:v2", answers={"a": "b"}, continuation="c")
    assert await runner.execute_deferred_tool_call(call) == ToolExecutionResult("mail: v2")
    assert (plain.executed[0].answers, plain.executed[0].continuation) == ({"a": "b"}, "c")
    task = build_execution("run", tool_source_reference="jobs:r", task_reference="t")
    assert await runner.poll_tool_task(task) == ToolExecutionResult("t r")
    await runner.cancel_tool_task(task)
    assert jobs.cancelled == ["t"]
    assert await runner.reconcile_tool_call(task) == ToolReconciliation("succeeded", "r")


@pytest.mark.case("BR-053")
async def test_a_pending_call_of_a_source_that_is_gone_fails_with_a_clear_text() -> None:
    with pytest.raises(ToolExecutionError) as caught:
        await converse()[0].runner.execute_deferred_tool_call(
            build_execution("search", tool_source_reference="mail")
        )
    assert str(caught.value) == texts.tool_not_available("search")


async def test_what_a_source_raises_by_mistake_is_a_failed_attempt() -> None:
    class Broken(PollingSource):
        async def execute_deferred_tool_call(self, call: Any) -> Any:
            raise TypeError("a bug")

        poll_tool_task = cancel_tool_task = reconcile_tool_call = execute_deferred_tool_call

    runner = converse(Broken("s"))[0].runner
    call = build_execution("run", tool_source_reference="s", task_reference="t")
    for serve in (
        runner.execute_deferred_tool_call,
        runner.poll_tool_task,
        runner.cancel_tool_task,
        runner.reconcile_tool_call,
    ):
        with pytest.raises(AttemptFailedError, match="TypeError: a bug"):
            await serve(call)


async def test_changed_arguments_are_checked_against_the_latest_listing() -> None:
    conversation, _ = converse(ListedSource("s", [build_tool("look", parameters=TEXT)]), replies=[ANSWER])
    runner = conversation.runner
    assert runner.prepare_tool_arguments("look", '{"q": 3}', "s") == '{"q": 3}'
    await conversation.complete()
    assert runner.prepare_tool_arguments("look", '{"q": "3"}', "s") == '{"q": "3"}'
    for reference in ("s", "gone"):
        with pytest.raises(InvalidInputError) as caught:
            runner.prepare_tool_arguments("look", '{"q": 3}' if reference == "s" else "[]", reference)
        assert caught.value.field == "arguments"
