"""The model of a call, chosen by the session's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    InstructionContext,
    ModelClient,
    ModelOutputItem,
    ScriptedModelClient,
    ScriptedModelReply,
)
from dex_agents.errors import RunnerContractError
from tests.unit.builtin_loop.turns import Conversation, RecordedScript

SIGNED = '{"thinking": "…", "signature": "x+/=",  "n": 1.50, "s":"\\u00e9"}'


@pytest.mark.case("BR-064")
@pytest.mark.requirement("model-switch")
async def test_a_session_that_comes_back_to_a_model_gives_it_its_own_items_byte_for_byte() -> None:
    script_a = RecordedScript(
        ScriptedModelReply(text="from A", item=SIGNED), ScriptedModelReply(text="A again")
    )
    script_b = RecordedScript(ScriptedModelReply(text="from B", item='{"b":1}'))
    models: dict[str, ModelClient] = {
        "a": ScriptedModelClient(script_a, provider="one"),
        "b": ScriptedModelClient(script_b, provider="two"),
    }

    def choose(settings: Mapping[str, Any]) -> ModelClient:
        return models[settings.get("model", "a")]

    definition = AgentDefinition(name="d", model=models["a"], resolve_model=choose)
    conversation = Conversation(BuiltinLoopAgentRunner(definition))
    for settings in ({}, {"model": "b"}, {"model": "a"}):
        conversation.session_settings = settings
        conversation.begin_turn("hello")
        await conversation.complete()

    assert script_b.requests[0].items[1] == ModelOutputItem(text="from A")
    assert script_a.requests[1].items[1] == ModelOutputItem(text="from A", item=SIGNED)
    assert script_a.requests[1].items[3] == ModelOutputItem(text="from B")


async def test_instructions_may_look_at_the_settings() -> None:
    def write(context: InstructionContext) -> str:
        return f"Answer in {context.session_settings.get('language', 'English')}."

    script = RecordedScript(ScriptedModelReply(text="one"), ScriptedModelReply(text="two"))
    definition = AgentDefinition(name="d", model=ScriptedModelClient(script), instructions=write)
    conversation = Conversation(BuiltinLoopAgentRunner(definition))
    for settings in ({}, {"language": "French"}):
        conversation.session_settings = settings
        conversation.begin_turn("hello")
        await conversation.complete()
    assert [request.instructions for request in script.requests] == [
        "Answer in English.",
        "Answer in French.",
    ]


@pytest.mark.parametrize("returned", [None, "gpt-5", object()])
async def test_something_that_is_no_model_client_fails_the_attempt(returned: object) -> None:
    def choose(_: Mapping[str, Any]) -> Any:
        return returned

    model = ScriptedModelClient(lambda _: ScriptedModelReply(text="x"))
    definition = AgentDefinition(name="d", model=model, resolve_model=choose)
    conversation = Conversation(BuiltinLoopAgentRunner(definition))
    conversation.begin_turn("hello")
    with pytest.raises(RunnerContractError, match="resolve_model"):
        await conversation.run_model()
