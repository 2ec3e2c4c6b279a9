"""The model without a key."""

from __future__ import annotations

from typing import Any

import pytest

from dex_agents.builtin_loop import (
    ModelClient,
    ModelOutputItem,
    ModelRequest,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
)
from tests.unit.builtin_loop.turns import RecordedEvents

REQUEST = ModelRequest(
    instructions="",
    items=(
        ModelUserTextItem("one"),
        ModelOutputItem("", (ModelToolCall("call_1", "look", "{}"),)),
        ModelToolResultItem("call_1", "look", "old"),
        ModelOutputItem("answer"),
        ModelUserTextItem("two"),
        ModelOutputItem("", (ModelToolCall("x", "look", "{}"), ModelToolCall("x", "look", "{}"))),
        ModelToolResultItem("x", "look", "new"),
        ModelToolResultItem("x", "look", "newer"),
    ),
)


async def test_text_and_reasoning_are_streamed_in_the_same_pieces_each_time() -> None:
    reply = ScriptedModelReply(text="  two words\n", reasoning="let me see")
    client: ModelClient = ScriptedModelClient(lambda request: reply)
    for _ in range(2):
        events = RecordedEvents()
        response = await client.generate(REQUEST, events)
        assert events.text == ["  two ", "words\n"]
        assert events.reasoning == ["let ", "me ", "see"]
        assert (response.text, response.reasoning) == (reply.text, reply.reasoning)


async def test_a_gate_is_passed_before_each_piece() -> None:
    events = RecordedEvents()
    seen: list[tuple[str, int]] = []

    async def before_delta(delta: str) -> None:
        seen.append((delta, len(events.text)))

    client = ScriptedModelClient(lambda request: ScriptedModelReply(text="a b"), before_delta=before_delta)
    await client.generate(REQUEST, events)
    assert seen == [("a ", 0), ("b", 1)]


async def test_a_script_may_be_async_and_its_calls_are_numbered_through_the_conversation() -> None:
    async def script(request: ModelRequest) -> ScriptedModelReply:
        assert request is REQUEST
        return ScriptedModelReply(
            tool_calls=(
                ScriptedToolCall("look"),
                ScriptedToolCall("look", {"a": "\u00e9"}),
                ScriptedToolCall("look", "{broken", "mine"),
            ),
            finish_reason="tool_calls",
        )

    response = await ScriptedModelClient(script).generate(REQUEST, RecordedEvents())
    assert response.tool_calls == (
        ModelToolCall("call_4", "look", "{}"),
        ModelToolCall("call_5", "look", '{"a": "\\u00e9"}'),
        ModelToolCall("mine", "look", "{broken"),
    )
    assert response.finish_reason == "tool_calls"


async def test_a_script_that_returns_something_else_is_named() -> None:
    def script(request: ModelRequest) -> Any:
        return "hi"

    with pytest.raises(TypeError, match="the script returned a str"):
        await ScriptedModelClient(script).generate(REQUEST, RecordedEvents())


def test_a_script_reads_the_user_texts_and_the_results_of_the_turn() -> None:
    assert ScriptedModelClient.user_texts(REQUEST) == ("one", "two")
    assert [result.output for result in ScriptedModelClient.tool_results(REQUEST)] == ["new", "newer"]
