"""Streams that are not quite what an API promises, as servers that are compatible send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dex_agents.builtin_loop import ModelResponse, ModelToolCall
from dex_agents.builtin_loop.model_clients.anthropic_messages import MessagesFold
from dex_agents.builtin_loop.model_clients.openai_chat import ChatCompletionsFold
from dex_agents.builtin_loop.model_clients.openai_responses import ResponsesFold
from dex_agents.errors import ModelCallError
from tests.unit.builtin_loop.turns import RecordedEvents

END: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def fold_chat(*chunks: dict[str, Any]) -> ModelResponse:
    fold, events = ChatCompletionsFold("acme", "m"), RecordedEvents()
    for chunk in chunks:
        fold.feed(chunk, events)
    response = fold.finish()
    assert "".join(events.text) == response.text
    return response


def piece(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": [fields]}}]}


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    response = fold_chat(
        piece(index=0, id="a", function={"name": "look", "arguments": '{"q":'}),
        piece(index=0, id="a", function={"arguments": "1}"}),
        piece(index=0, id="b", function={"name": "look", "arguments": '{"q":2}'}),
        END,
    )
    assert response.tool_calls == (
        ModelToolCall("a", "look", '{"q":1}'),
        ModelToolCall("b", "look", '{"q":2}'),
    )


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    response = fold_chat(
        piece(function={"name": "look", "arguments": '{"q":'}),
        piece(function={"arguments": "1}"}),
        piece(function={"name": "put"}),
        END,
    )
    assert response.tool_calls == (ModelToolCall("", "look", '{"q":1}'), ModelToolCall("", "put", "{}"))


def test_pieces_of_parallel_calls_may_take_turns() -> None:
    response = fold_chat(
        piece(index=0, id="same", function={"name": "look", "arguments": "{"}),
        piece(index=1, id="same", function={"name": "put", "arguments": "{"}),
        piece(index=0, function={"arguments": "}"}),
        piece(index=1, function={"name": "put", "arguments": "}"}),
        END,
    )
    assert response.tool_calls == (ModelToolCall("same", "look", "{}"), ModelToolCall("same", "put", "{}"))


def test_reasoning_under_two_names_is_read_once() -> None:
    both = {"choices": [{"delta": {"reasoning": "hm", "reasoning_content": "hm", "content": "x"}}]}
    other = {"choices": [{"delta": {"reasoning": "!"}}]}
    response = fold_chat(both, other, END)
    assert (response.reasoning, response.text) == ("hm!", "x")


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None}, "finish_reason": None}]},
        {"choices": [{"delta": {"content": ["x"], "tool_calls": [None]}}]},
        {"usage": None, "id": None, "model": 7},
        {"usage": {"prompt_tokens": "many", "completion_tokens": -3, "prompt_tokens_details": None}},
    ],
)
def test_what_is_missing_or_odd_reads_as_nothing(chunk: dict[str, Any]) -> None:
    text = {"choices": [{"delta": {"content": "hi"}}]}
    response = fold_chat(chunk, text, chunk, END, chunk)
    assert response.text == "hi"
    assert (response.usage.input_tokens, response.usage.output_tokens) == (0, 0)


def test_usage_that_comes_with_every_chunk_is_counted_once() -> None:
    running: list[dict[str, Any]] = [
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": count}} for count in (1, 5)
    ]
    assert fold_chat(running[0], END, running[1]).usage.output_tokens == 5


def test_a_response_whose_items_come_only_at_its_end_is_whole() -> None:
    fold = ResponsesFold("acme", "m")
    part: dict[str, Any] = {"type": "output_text", "text": "hi", "annotations": []}
    message: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    fold.feed(
        {"type": "response.completed", "response": {"status": "completed", "output": [message]}},
        RecordedEvents(),
    )
    response = fold.finish()
    assert response.text == "hi"
    assert response.item == json.dumps([message], separators=(",", ":"))


def test_a_response_that_failed_says_why() -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "no luck"}}
    with pytest.raises(ModelCallError, match="acme: no luck"):
        ResponsesFold("acme", "m").feed({"type": "response.failed", "response": failed}, RecordedEvents())


def test_reasoning_that_could_not_be_sent_back_leaves_no_item() -> None:
    fold = ResponsesFold("acme", "m")
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": []}
    for item in (reasoning, call):
        fold.feed({"type": "response.output_item.done", "item": item}, RecordedEvents())
    fold.feed({"type": "response.completed", "response": {"status": "completed"}}, RecordedEvents())
    assert fold.finish().item is None


def test_reasoning_behind_the_text_is_not_sent_back() -> None:
    fold = ResponsesFold("acme", "m")
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    for item in (call, reasoning):
        fold.feed({"type": "response.output_item.done", "item": item}, RecordedEvents())
    fold.feed({"type": "response.completed", "response": {"status": "completed"}}, RecordedEvents())
    assert fold.finish().item == json.dumps([call], separators=(",", ":"))


def fold_messages(*events: dict[str, Any]) -> ModelResponse:
    fold = MessagesFold("acme", "m")
    for event in (*events, {"type": "message_stop"}):
        fold.feed(event, RecordedEvents())
    return fold.finish()


def test_a_block_that_comes_whole_is_read_whole() -> None:
    block: dict[str, Any] = {
        "type": "tool_use",
        "id": "a",
        "name": "look",
        "input": {"q": "é"},
        "caller": {"type": "direct"},
    }
    text = {"type": "text", "text": "hi", "citations": None}
    response = fold_messages(
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_start", "index": 1, "content_block": block},
    )
    assert response.text == "hi"
    assert response.tool_calls == (ModelToolCall("a", "look", '{"q": "é"}'),)
    assert json.loads(response.item or "") == [text, block]


def test_citations_and_kinds_that_are_not_known_yet_are_kept() -> None:
    newer: dict[str, Any] = {"type": "newer", "data": [1]}
    response = fold_messages(
        {"type": "content_block_start", "index": 0, "content_block": newer},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "newer_delta", "x": 1}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "so"}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "citations_delta", "citation": {"n": 1}},
        },
        {"type": "newer_event"},
    )
    assert json.loads(response.item or "") == [newer, {"type": "text", "text": "so", "citations": [{"n": 1}]}]


def test_a_count_that_is_not_told_again_keeps_its_value() -> None:
    response = fold_messages(
        {"type": "message_start", "message": {"usage": {"input_tokens": 9, "cache_read_input_tokens": 4}}},
        {
            "type": "message_delta",
            "delta": {},
            "usage": {"output_tokens": 3, "cache_read_input_tokens": None},
        },
    )
    usage = response.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (13, 4, 3)


def test_a_piece_of_a_block_that_did_not_begin_fails_the_attempt() -> None:
    with pytest.raises(ModelCallError, match="did not begin"):
        fold_messages(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
        )


def test_arguments_that_are_no_json_leave_no_item() -> None:
    block: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"q": '}
    response = fold_messages(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    )
    assert response.item is None
    assert response.tool_calls == (ModelToolCall("a", "look", '{"q": '),)


def test_blank_text_beside_a_call_is_not_kept() -> None:
    block: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    response = fold_messages(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "\n\n"}},
        {"type": "content_block_start", "index": 1, "content_block": block},
    )
    assert json.loads(response.item or "") == [block]
