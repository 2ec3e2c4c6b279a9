"""One model call at a time: what is sent, what is stored, what follows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dex_agents import limits, texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    InstructionContext,
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.errors import RunnerContractError, WireFormatError
from dex_agents.runner.contract import AgentFrameworkRunner, EditsToolArguments
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.runner.outcomes import ToolCallsRequested, TurnCompleted
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy
from dex_agents.wire.usage import AgentUsage
from tests.unit.builtin_loop.turns import Conversation, RecordedScript


@function_tool(effect=ToolEffect.READ)
async def get_data(key: str) -> str:
    """Read a value."""
    return key


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, ordered=True)
async def refund(order_id: str, amount: int = 1) -> str:
    """Send money back."""
    return f"{order_id} {amount}"


@function_tool
async def unclassified_tool() -> str:
    """Nobody said what it does."""
    return ""


def converse(
    *replies: ScriptedModelReply | Exception, **definition: Any
) -> tuple[Conversation, RecordedScript]:
    script = RecordedScript(*replies)
    fields: dict[str, Any] = {
        "name": "support",
        "instructions": "Help.",
        "model": ScriptedModelClient(script),
        "tools": (get_data, refund, unclassified_tool),
    }
    conversation = Conversation(BuiltinLoopAgentRunner(AgentDefinition(**(fields | definition))))
    conversation.begin_turn("hi")
    return conversation, script


def calls(*asked: ScriptedToolCall, text: str = "") -> ScriptedModelReply:
    return ScriptedModelReply(text=text, tool_calls=asked)


def a_read(key: str = "a", model_call_id: str | None = None) -> ScriptedToolCall:
    return ScriptedToolCall("get_data", {"key": key}, model_call_id)


def test_the_runner_satisfies_its_contracts() -> None:
    conversation, _ = converse()
    runner: AgentFrameworkRunner = conversation.runner
    assert isinstance(runner, EditsToolArguments)


async def test_an_answer_completes_the_turn() -> None:
    usage = AgentUsage(model_calls=7, input_tokens=3, output_tokens=2)
    conversation, script = converse(ScriptedModelReply(text="hello there", usage=usage))
    outcome = await conversation.complete()
    assert script.requests == [ModelRequest("Help.", (ModelUserTextItem("hi"),), script.requests[0].tools)]
    assert [tool.name for tool in script.requests[0].tools] == ["get_data", "refund", "unclassified_tool"]
    (message,) = outcome.new_messages
    assert (message.role, message.text) == ("assistant", "hello there")
    assert json.loads(message.framework_item) == {
        "type": "model_output",
        "provider": "scripted",
        "api": "scripted",
        "item": None,
        "text": "hello there",
        "tool_calls": [],
    }
    assert outcome.usage == AgentUsage(model_calls=1, input_tokens=3, output_tokens=2)
    assert outcome.turn_error is None
    assert conversation.events.text == ["hello ", "there"]


async def test_a_round_of_tools_is_stored_as_it_goes() -> None:
    conversation, script = converse(
        calls(a_read("x"), a_read("y"), text="Let me look."), ScriptedModelReply(text="done")
    )
    asked = await conversation.ask_for_tools()
    assert asked.framework_run_state == '{"model_calls":1}'
    assert [message.role for message in asked.new_messages] == ["assistant"]
    assert [call.tool_call_id for call in asked.tool_calls] == ["call_1", "call_2"]
    assert json.loads(asked.new_messages[0].framework_item)["tool_calls"][0] == {
        "tool_call_id": "call_1",
        "model_call_id": "call_1",
        "tool_name": "get_data",
        "arguments": '{"key": "x"}',
    }
    conversation.finish_call("call_2", "second")
    conversation.finish_call("call_1", "first")
    outcome = await conversation.complete()
    assert [message.role for message in outcome.new_messages] == ["tool", "tool", "assistant"]
    result = outcome.new_messages[0]
    assert (result.tool_call_id, result.tool_name) == ("call_1", "get_data")
    assert (result.tool_arguments, result.tool_output) == ('{"key": "x"}', "first")
    assert json.loads(result.framework_item) == {
        "type": "tool_result",
        "tool_call_id": "call_1",
        "tool_name": "get_data",
        "output": "first",
    }
    assert [type(item) for item in script.requests[1].items] == [
        ModelUserTextItem,
        ModelOutputItem,
        ModelToolResultItem,
        ModelToolResultItem,
    ]
    assert [result.output for result in ScriptedModelClient.tool_results(script.requests[1])] == [
        "first",
        "second",
    ]


async def test_the_same_committed_state_gives_the_same_request_and_the_same_ids() -> None:
    reply = calls(a_read("x", "same"), a_read("y", "same"))
    conversation, script = converse(reply, reply)
    first = await conversation.runner.run_model_step(conversation.build_turn(1))
    second = await conversation.runner.run_model_step(conversation.build_turn(2))
    assert first == second
    assert script.requests[0] == script.requests[1]


async def test_ids_stay_unique_when_a_model_repeats_its_own() -> None:
    conversation, script = converse(
        calls(a_read("1", "c"), a_read("2", "c")), calls(a_read("3", "c")), ScriptedModelReply(text="ok")
    )
    first = await conversation.ask_for_tools()
    assert [call.tool_call_id for call in first.tool_calls] == ["c", "c#2"]
    conversation.finish_call("c", "one")
    conversation.finish_call("c#2", "two")
    second = await conversation.ask_for_tools()
    assert [(call.tool_call_id, call.model_call_id) for call in second.tool_calls] == [("c#3", "c")]
    conversation.finish_call("c#3", "three")
    await conversation.complete()
    results = ScriptedModelClient.tool_results(script.requests[2])
    assert [(result.model_call_id, result.output) for result in results] == [
        ("c", "one"),
        ("c", "two"),
        ("c", "three"),
    ]


@pytest.mark.case("BR-015")
async def test_every_finished_result_reaches_the_model_as_it_is() -> None:
    outputs = [f"result {n} \u00e9\u4e16 " + "x" * n for n in range(20)]
    conversation, script = converse(
        calls(*(a_read(str(n)) for n in range(20))), ScriptedModelReply(text="ok")
    )
    asked = await conversation.ask_for_tools()
    for call, output in zip(reversed(asked.tool_calls), reversed(outputs), strict=True):
        conversation.finish_call(call.tool_call_id, output)
    completed = await conversation.complete()
    assert [result.output for result in ScriptedModelClient.tool_results(script.requests[1])] == outputs
    assert [message.tool_output for message in completed.new_messages[:20]] == outputs


@pytest.mark.case("BR-021")
async def test_parallel_results_are_adjacent_and_in_the_asked_order() -> None:
    conversation, script = converse(calls(*(a_read(str(n)) for n in range(5))), ScriptedModelReply(text="ok"))
    asked = await conversation.ask_for_tools()
    for call in reversed(asked.tool_calls):
        conversation.finish_call(call.tool_call_id, call.tool_call_id)
    await conversation.complete()
    results = script.requests[1].items[2:]
    assert [item.output for item in results if isinstance(item, ModelToolResultItem)] == [
        call.tool_call_id for call in asked.tool_calls
    ]


@pytest.mark.case("BR-013")
async def test_a_call_whose_record_is_lost_reads_as_an_unknown_outcome() -> None:
    conversation, script = converse(calls(a_read()), ScriptedModelReply(text="ok"))
    await conversation.ask_for_tools()
    conversation.calls.clear()
    completed = await conversation.complete()
    assert completed.new_messages[0].tool_output == texts.OUTCOME_UNKNOWN_TOOL_RESULT
    (result,) = ScriptedModelClient.tool_results(script.requests[1])
    assert result.output == texts.OUTCOME_UNKNOWN_TOOL_RESULT


@pytest.mark.case("BR-054")
async def test_an_unknown_tool_is_answered_to_the_model() -> None:
    conversation, _ = converse(calls(ScriptedToolCall("get_dat")))
    (call,) = (await conversation.ask_for_tools()).tool_calls
    assert call.refusal == texts.unknown_tool("get_dat", ("get_data", "refund", "unclassified_tool"))
    assert (call.policy.effect, call.policy.requires_approval) == (ToolEffect.READ, False)


@pytest.mark.case("BR-022")
async def test_each_call_with_bad_arguments_has_a_refusal_of_its_own() -> None:
    conversation, script = converse(
        calls(ScriptedToolCall("get_data", {}), ScriptedToolCall("get_data", {"key": 1})),
        ScriptedModelReply(text="ok"),
    )
    first, second = (await conversation.ask_for_tools()).tool_calls
    assert first.refusal == "invalid arguments: /key: is required"
    assert second.refusal == "invalid arguments: /key: expected string, got integer"
    await conversation.complete()
    assert [result.output for result in ScriptedModelClient.tool_results(script.requests[1])] == [
        "The tool call failed: invalid arguments: /key: is required",
        "The tool call failed: invalid arguments: /key: expected string, got integer",
    ]


@pytest.mark.case("BR-059")
@pytest.mark.case("BR-061")
@pytest.mark.case("BR-062")
@pytest.mark.parametrize("finish_reason", ["tool_calls", "length", None])
async def test_cut_arguments_never_run_and_never_break_a_later_request(finish_reason: str | None) -> None:
    anything = function_tool(
        name="write_file",
        description="Writes.",
        parameters={"type": "object"},
        execute=lambda arguments, context: "written",
    )
    cut = '{"path": "/tmp/x", "content": "abc'
    conversation, script = converse(
        ScriptedModelReply(
            tool_calls=(ScriptedToolCall("write_file", cut),), item='{"n":1}', finish_reason=finish_reason
        ),
        ScriptedModelReply(text="ok"),
        tools=(anything,),
    )
    (call,) = (await conversation.ask_for_tools()).tool_calls
    assert call.refusal == texts.invalid_arguments(texts.arguments_cut_off(1, len(cut) + 1))
    assert call.arguments == cut
    await conversation.complete()
    output = script.requests[1].items[1]
    assert isinstance(output, ModelOutputItem)
    assert output.item is None
    assert json.loads(output.tool_calls[0].arguments) == {"_invalid_arguments": cut}


@pytest.mark.case("BR-063")
@pytest.mark.parametrize("letter", ["x", "\u4e16"])
async def test_arguments_over_the_limit_are_refused_and_replayed_bounded(letter: str) -> None:
    conversation, script = converse(calls(a_read(letter * 1_200_000)), ScriptedModelReply(text="ok"))
    (call,) = (await conversation.ask_for_tools()).tool_calls
    assert call.refusal == texts.invalid_arguments(texts.ARGUMENTS_TOO_LONG)
    assert call.arguments.startswith('{"key": "')
    assert len(call.arguments) < 20_000
    await conversation.complete()
    output = script.requests[1].items[1]
    assert isinstance(output, ModelOutputItem)
    assert len(output.tool_calls[0].arguments) < 10_000
    assert list(json.loads(output.tool_calls[0].arguments)) == ["_invalid_arguments"]


@pytest.mark.case("BR-089")
async def test_lone_surrogates_of_a_model_are_replaced_before_anything_is_stored() -> None:
    conversation, script = converse(
        calls(
            ScriptedToolCall("get_data", '{"key": "a\\ud99cb"}', "i\ud99c"),
            ScriptedToolCall("get_data", '{"key": "a\ud99cb"}'),
            ScriptedToolCall("get\ud99c", '{"\\ud99c": 1}'),
            text="t\ud99c",
        ),
        ScriptedModelReply(text="ok"),
    )
    asked = await conversation.ask_for_tools()
    assert [call.effective_arguments or call.arguments for call in asked.tool_calls[:2]] == [
        '{"key": "a\\ufffdb"}',
        '{"key": "a\ufffdb"}',
    ]
    assert asked.tool_calls[0].tool_call_id == "i\ufffd"
    assert asked.new_messages[0].text == "t\ufffd"
    await conversation.complete()
    for message in conversation.messages:
        message.framework_item.encode()
    output = script.requests[1].items[1]
    assert isinstance(output, ModelOutputItem)
    for call in output.tool_calls:
        json.dumps(json.loads(call.arguments), ensure_ascii=False).encode()


@pytest.mark.case("BR-089")
async def test_a_lone_surrogate_in_native_output_is_replaced_before_it_is_stored() -> None:
    conversation, script = converse(
        ScriptedModelReply(text="ok", item='{"t": "\\ud99c"}'), ScriptedModelReply(text="ok")
    )
    await conversation.complete()
    assert json.loads(conversation.messages[-1].framework_item)["item"] == {"t": "\ufffd"}
    conversation.begin_turn("next")
    await conversation.complete()
    assert script.requests[1].items[1] == ModelOutputItem(text="ok", item='{"t":"\ufffd"}')


@pytest.mark.case("BR-057")
@pytest.mark.case("BR-058")
async def test_no_blank_text_is_sent_and_an_empty_output_still_gives_a_result() -> None:
    conversation, script = converse(calls(a_read(), text=" "), ScriptedModelReply(text="ok"))
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "")
    completed = await conversation.complete()
    assert completed.new_messages[0].tool_output == ""
    output, result = script.requests[1].items[1:]
    assert isinstance(output, ModelOutputItem)
    assert output.text == ""
    assert isinstance(result, ModelToolResultItem)
    assert result.output == texts.EMPTY_TOOL_OUTPUT


@pytest.mark.case("BR-055")
@pytest.mark.case("BR-056")
@pytest.mark.parametrize("empty", [ScriptedModelReply(), ScriptedModelReply(text=" \n", reasoning="hmm")])
async def test_empty_answers_are_retried_and_then_end_the_turn_as_failed(empty: ScriptedModelReply) -> None:
    conversation, script = converse(calls(a_read()), empty, empty, empty)
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "out")
    for attempt in range(1, limits.MAX_MODEL_CALL_ATTEMPTS):
        with pytest.raises(RuntimeError, match="neither text nor a tool call"):
            await conversation.run_model(attempt)
    outcome = await conversation.run_model(limits.MAX_MODEL_CALL_ATTEMPTS)
    assert isinstance(outcome, TurnCompleted)
    assert outcome.turn_error == texts.empty_answer_error(limits.MAX_MODEL_CALL_ATTEMPTS)
    assert [message.role for message in outcome.new_messages] == ["tool"]
    assert outcome.usage.model_calls == 1
    assert len(script.requests) == 1 + limits.MAX_MODEL_CALL_ATTEMPTS
    # The results are stored now: what closes the failed turn does not store them again.
    closing = conversation.runner.build_unfinished_turn_messages(conversation.turn_messages, [], "why")
    assert [message.role for message in closing] == ["note"]


async def test_after_the_limit_of_model_calls_no_tools_are_offered() -> None:
    conversation, script = converse(
        calls(a_read()), calls(a_read()), ScriptedModelReply(text="enough"), max_model_calls_per_turn=2
    )
    for tool_call_id in ("call_1", "call_2"):
        await conversation.ask_for_tools()
        conversation.finish_call(tool_call_id, "out")
    completed = await conversation.complete()
    assert completed.new_messages[-1].text == "enough"
    assert [len(request.tools) for request in script.requests] == [3, 3, 0]


async def test_a_model_that_asks_after_the_limit_gets_each_call_answered_and_the_turn_ends() -> None:
    conversation, script = converse(
        calls(a_read()),
        calls(a_read("b", "call_1"), a_read("c")),
        calls(a_read("d", "call_1")),
        ScriptedModelReply(text="ok"),
        max_model_calls_per_turn=1,
    )
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "out")
    completed = await conversation.complete()
    limit_text = texts.tool_call_over_model_call_limit(1)
    assert [message.role for message in completed.new_messages] == ["tool", "assistant", "tool", "tool"]
    assert [message.tool_output for message in completed.new_messages[2:]] == [limit_text, limit_text]
    # The next turn may use the tools again, and its calls get IDs that the refused ones do not have.
    conversation.begin_turn("and now?")
    (call,) = (await conversation.ask_for_tools()).tool_calls
    stored = [message.tool_call_id for message in conversation.messages if message.role == "tool"]
    assert call.tool_call_id not in stored
    assert len(set(stored)) == len(stored)
    conversation.finish_call(call.tool_call_id, "again")
    await conversation.complete()
    assert [item.output for item in script.requests[3].items if isinstance(item, ModelToolResultItem)] == [
        "out",
        limit_text,
        limit_text,
        "again",
    ]


async def test_the_calls_beyond_the_limit_of_one_response_are_not_run() -> None:
    many = limits.MAX_TOOL_CALLS_PER_RESPONSE + 2
    conversation, _ = converse(calls(*(a_read(str(n)) for n in range(many))))
    asked = (await conversation.ask_for_tools()).tool_calls
    reason = texts.tool_call_beyond_response_limit(limits.MAX_TOOL_CALLS_PER_RESPONSE)
    assert [call.not_run_reason for call in asked] == [None] * (many - 2) + [reason, reason]
    assert all(call.refusal is None for call in asked)


async def test_the_effect_comes_from_the_policy_then_the_tool_then_the_session() -> None:
    asked = calls(
        a_read(), ScriptedToolCall("refund", {"order_id": "1"}), ScriptedToolCall("unclassified_tool")
    )
    conversation, _ = converse(asked, asked)
    read, write, unknown = (await conversation.ask_for_tools()).tool_calls
    assert (read.policy.effect, read.policy.requires_approval, read.ordered) == (
        ToolEffect.READ,
        False,
        False,
    )
    assert (write.policy.effect, write.policy.requires_approval, write.ordered) == (
        ToolEffect.NON_IDEMPOTENT_WRITE,
        True,
        True,
    )
    assert (unknown.policy.effect, unknown.policy.requires_approval) == (ToolEffect.UNCLASSIFIED, True)
    conversation.tool_policies = {"refund": ToolPolicy(effect=ToolEffect.READ)}
    _, write, _ = (await conversation.ask_for_tools()).tool_calls
    assert (write.policy.effect, write.policy.requires_approval, write.ordered) == (
        ToolEffect.READ,
        False,
        False,
    )


async def test_prepared_arguments_run_and_the_model_s_own_are_kept() -> None:
    renamed = function_tool(
        name="look",
        description="Looks.",
        parameters={"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
        execute=lambda arguments, context: arguments,
        prepare_arguments=lambda arguments: {"key": arguments.pop("old", "") or arguments["key"]},
    )
    conversation, _ = converse(
        calls(ScriptedToolCall("look", {"old": "x"}), ScriptedToolCall("look", {"key": "y"})),
        tools=(renamed,),
    )
    old, new = (await conversation.ask_for_tools()).tool_calls
    assert (old.arguments, old.effective_arguments) == ('{"old": "x"}', '{"key": "x"}')
    assert (new.arguments, new.effective_arguments) == ('{"key": "y"}', None)


@pytest.mark.case("BR-064")
async def test_native_output_goes_back_to_its_own_provider_only() -> None:
    native = '{"signed": "x",  "n": 1.50, "s":"\\u00e9"}'
    conversation, _ = converse(ScriptedModelReply(text="from A", item=native))
    await conversation.complete()
    script_b = RecordedScript(ScriptedModelReply(text="from B", item='{"b":1}'))
    conversation.runner = BuiltinLoopAgentRunner(
        AgentDefinition(name="b", model=ScriptedModelClient(script_b, provider="other"))
    )
    conversation.begin_turn("to B")
    await conversation.complete()
    assert script_b.requests[0].items[1] == ModelOutputItem(text="from A")
    script_a = RecordedScript(ScriptedModelReply(text="A again"))
    conversation.runner = BuiltinLoopAgentRunner(
        AgentDefinition(name="a", model=ScriptedModelClient(script_a))
    )
    conversation.begin_turn("to A")
    await conversation.complete()
    assert script_a.requests[0].items[1] == ModelOutputItem(text="from A", item=native)
    assert script_a.requests[0].items[3] == ModelOutputItem(text="from B")


@pytest.mark.case("BR-024")
async def test_an_answer_that_breaks_off_is_not_stored_and_is_asked_for_again() -> None:
    conversation, script = converse(ConnectionError("stream ended"), ScriptedModelReply(text="whole"))
    before = list(conversation.messages)
    with pytest.raises(ConnectionError):
        await conversation.run_model()
    assert conversation.messages == before
    await conversation.run_model(attempt=2)
    assert script.requests[0] == script.requests[1]


@pytest.mark.parametrize("error", [TypeError("bad"), ValueError("bad")])
async def test_an_error_of_a_model_client_that_the_sdk_would_replace_keeps_its_name(error: Exception) -> None:
    conversation, _ = converse(error)
    with pytest.raises(RuntimeError) as caught:
        await conversation.run_model()
    assert str(caught.value) == f"{type(error).__name__}: bad"
    assert caught.value.__cause__ is error


async def test_instructions_may_be_a_function() -> None:
    def instruct(context: InstructionContext) -> str:
        return f"{context.flow_id} {context.turn_id}"

    conversation, script = converse(ScriptedModelReply(text="ok"), instructions=instruct)
    await conversation.complete()
    assert script.requests[0].instructions == "session-1 turn-1"


async def test_instructions_that_are_no_text_fail_the_attempt() -> None:
    def forget(context: InstructionContext) -> Any:
        return None

    conversation, _ = converse(instructions=forget)
    with pytest.raises(RunnerContractError, match="instructions returned a NoneType"):
        await conversation.run_model()


async def test_a_client_that_breaks_its_contract_is_named() -> None:
    class WrongClient(ScriptedModelClient):
        async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
            answer: Any = {"text": "hi"}
            return answer

    conversation, _ = converse(model=WrongClient(lambda request: ScriptedModelReply()))
    with pytest.raises(RunnerContractError, match=r"WrongClient\.generate returned a dict"):
        await conversation.run_model()


async def test_native_output_that_is_not_json_is_refused() -> None:
    conversation, _ = converse(ScriptedModelReply(text="hi", item="{"))
    with pytest.raises(RunnerContractError, match=r"ModelResponse\.item"):
        await conversation.run_model()


async def test_a_run_state_that_is_not_ours_is_named_and_not_guessed() -> None:
    conversation, _ = converse()
    conversation.framework_run_state = "x"
    with pytest.raises(WireFormatError, match="BuiltinLoopRunState"):
        await conversation.run_model()


async def test_a_run_state_of_a_newer_version_is_read() -> None:
    conversation, _ = converse(calls(a_read()))
    conversation.framework_run_state = '{"model_calls": 3, "consecutive_continuations": 2}'
    outcome = await conversation.run_model()
    assert isinstance(outcome, ToolCallsRequested)
    assert outcome.framework_run_state == '{"model_calls":4}'


async def test_cancelling_a_model_call_passes_through() -> None:
    entered = asyncio.Event()

    async def wait_for_ever(request: ModelRequest) -> ScriptedModelReply:
        entered.set()
        await asyncio.Event().wait()
        return ScriptedModelReply(text="never")

    conversation, _ = converse(model=ScriptedModelClient(wait_for_ever))
    running = asyncio.create_task(conversation.run_model())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.case("BR-020")
@pytest.mark.case("BR-023")
async def test_an_unfinished_turn_is_closed_with_every_call_answered() -> None:
    conversation, script = converse(calls(a_read("1"), a_read("2")), ScriptedModelReply(text="ok"))
    await conversation.ask_for_tools()
    first = conversation.finish_call("call_1", status="not_run", error=texts.tool_call_cancelled())
    second = conversation.finish_call("call_2", "two")
    closing = conversation.runner.build_unfinished_turn_messages(
        conversation.turn_messages, [first, second], texts.TURN_CANCELLED_NOTE
    )
    assert [message.role for message in closing] == ["tool", "tool", "note"]
    assert json.loads(closing[2].framework_item) == {"type": "user_text", "text": texts.TURN_CANCELLED_NOTE}
    conversation.store(closing)
    conversation.begin_turn("next")
    await conversation.complete()
    items = script.requests[1].items
    assert [item.output for item in items if isinstance(item, ModelToolResultItem)] == [
        texts.tool_call_cancelled(),
        "two",
    ]
    assert items[-2:] == (ModelUserTextItem(texts.TURN_CANCELLED_NOTE), ModelUserTextItem("next"))


async def test_a_stored_call_that_nobody_names_is_closed_as_unknown() -> None:
    conversation, _ = converse(calls(a_read("1"), a_read("2")))
    await conversation.ask_for_tools()
    done = conversation.finish_call("call_2", "two")
    closing = conversation.runner.build_unfinished_turn_messages(conversation.turn_messages, [done], "why")
    assert [(message.tool_call_id, message.tool_output) for message in closing[:2]] == [
        ("call_1", texts.OUTCOME_UNKNOWN_TOOL_RESULT),
        ("call_2", "two"),
    ]


async def test_a_record_whose_answer_cannot_be_read_gets_its_result_all_the_same() -> None:
    conversation, _ = converse(calls(a_read()))
    await conversation.ask_for_tools()
    record = conversation.finish_call("call_1", "out")
    result, _ = conversation.runner.build_unfinished_turn_messages([], [record], "why")
    assert (result.tool_call_id, result.tool_arguments) == ("call_1", '{"key": "a"}')
    assert result.tool_output == "out"


async def test_a_turn_without_calls_is_closed_with_its_note_alone() -> None:
    conversation, _ = converse()
    (note,) = conversation.runner.build_unfinished_turn_messages(conversation.turn_messages, [], "why")
    assert (note.role, note.text) == ("note", "why")
