"""A model call that no provider would answer, and an answer that is none on purpose."""

from __future__ import annotations

import pytest

from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelRequest,
    ModelResponse,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
)
from dex_agents.errors import ModelCallError, ModelCallRefusedError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.usage import AgentUsage
from tests.unit.builtin_loop.turns import Conversation, RecordedScript


def converse(*replies: ScriptedModelReply | Exception) -> Conversation:
    definition = AgentDefinition(name="d", model=ScriptedModelClient(RecordedScript(*replies)))
    conversation = Conversation(BuiltinLoopAgentRunner(definition))
    conversation.begin_turn("hello")
    return conversation


@pytest.mark.requirement("refused-at-once")
async def test_a_refused_call_ends_the_turn_with_the_results_that_were_known() -> None:
    refused = ModelCallRefusedError("acme", "answered 400: too long \ud800", status=400)
    conversation = converse(ScriptedModelReply(tool_calls=(ScriptedToolCall("look"),)), refused)
    await conversation.ask_for_tools()
    conversation.finish_call("call_1", "found")
    outcome = await conversation.complete()
    assert outcome.turn_error == "the model call was refused: acme: answered 400: too long \ufffd"
    assert [message.tool_output for message in outcome.new_messages] == ["found"]
    assert outcome.usage == AgentUsage()


async def test_a_call_that_may_succeed_later_fails_the_attempt() -> None:
    conversation = converse(ModelCallError("acme", "answered 503: busy", status=503))
    with pytest.raises(ModelCallError, match="busy"):
        await conversation.run_model()


class Declining:
    """A model that gives no answer on purpose."""

    provider = api = "acme"

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        return ModelResponse(refusal="not this \ud800", usage=AgentUsage(input_tokens=9))


async def test_a_model_that_declines_ends_the_turn_at_once_and_is_paid() -> None:
    conversation = Conversation(BuiltinLoopAgentRunner(AgentDefinition(name="d", model=Declining())))
    conversation.begin_turn("hello")
    outcome = await conversation.complete()
    assert outcome.turn_error == "the model declined to answer: not this \ufffd"
    assert outcome.new_messages == ()
    assert outcome.usage == AgentUsage(model_calls=1, input_tokens=9)
