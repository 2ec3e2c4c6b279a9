"""Native output that is not what it was: told in text and calls, so that the session can go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dex_agents.builtin_loop import ModelOutputItem, ModelToolCall, ModelToolResultItem, ModelUserTextItem
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.testing import ModelApi
from tests.unit.builtin_loop.model_clients.clients import asking

CALL = ModelToolCall("x", "look", '{"q":1}')
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
FUNCTION_CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "x",
    "name": "look",
    "arguments": '{"q":1}',
}
MESSAGE: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
TOOL_USE: dict[str, Any] = {"type": "tool_use", "id": "x", "name": "look", "input": {"q": 1}}

NO_LIST_OF_ITEMS: tuple[Any, ...] = ({}, [], None, [1], [{}], "text", 7)

DAMAGED: list[tuple[ModelApi, Any]] = [
    *((api, item) for api in ("responses", "messages") for item in NO_LIST_OF_ITEMS),
    ("responses", [REASONING]),
    ("responses", [FUNCTION_CALL | {"name": "other"}]),
    ("responses", [FUNCTION_CALL | {"arguments": '{"q":2}'}]),
    ("responses", [FUNCTION_CALL, FUNCTION_CALL]),
    ("responses", [{**REASONING, "encrypted_content": ""}, FUNCTION_CALL]),
    ("responses", [{**MESSAGE, "content": []}, FUNCTION_CALL]),
    ("responses", [{**MESSAGE, "content": [{"type": "output_text", "text": " "}]}, FUNCTION_CALL]),
    ("responses", [{"type": None}, FUNCTION_CALL]),
    ("messages", [{"type": "text", "text": "no call"}]),
    ("messages", [TOOL_USE | {"name": "other"}]),
    ("messages", [TOOL_USE, TOOL_USE]),
    ("messages", [{}, TOOL_USE]),
]


@pytest.mark.parametrize(("api", "damaged"), DAMAGED)
@pytest.mark.requirement("session-goes-on")
def test_a_damaged_item_is_told_in_text_and_calls(api: ModelApi, damaged: object) -> None:
    client = AnthropicModelClient("m") if api == "messages" else OpenAIModelClient("m")
    results = ModelToolResultItem("x", "look", "found")
    healed, expected = (
        client.build_request(asking(ModelOutputItem("Looking.", (CALL,), item), results))
        for item in (json.dumps(damaged), None)
    )
    assert healed == expected


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_an_item_of_a_kind_that_is_not_known_yet_is_sent_as_it_came(api: ModelApi) -> None:
    client = AnthropicModelClient("m") if api == "messages" else OpenAIModelClient("m")
    native: list[dict[str, Any]] = [
        {"type": "newer", "data": {"x": [1]}},
        TOOL_USE if api == "messages" else FUNCTION_CALL,
    ]
    request = asking(ModelOutputItem("", (CALL,), json.dumps(native)), ModelToolResultItem("x", "look", "y"))
    body = client.build_request(request)
    sent = body["messages"][1]["content"] if api == "messages" else body["input"][1:3]
    assert sent == native


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_an_answer_without_items_is_told_in_text(api: ModelApi) -> None:
    client = AnthropicModelClient("m") if api == "messages" else OpenAIModelClient("m")
    more = ModelUserTextItem("more")
    emptied, expected = (
        client.build_request(asking(ModelOutputItem("Done.", (), item), more)) for item in ("[]", None)
    )
    assert emptied == expected
