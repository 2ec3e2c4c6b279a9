"""Replies as the events of each provider's stream; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, assert_never, cast

from dex_agents.builtin_loop.json_values import is_json_array
from dex_agents.testing.model_replies import ModelApi, ModelServerReply, arguments_text

__all__ = ["StreamEvent", "build_stream", "encode_event"]

_PIECES: Final = re.compile(r"\s*\S+\s*|\s+")

StreamEvent = tuple[str | None, Any]
"""The event's name, where the API names its events, and its data; text is sent as it is."""


def build_stream(
    api: ModelApi, reply: ModelServerReply, request: dict[str, Any], *, number: int
) -> list[StreamEvent]:
    """Return the events of a reply.

    Args:
        api: The API.
        reply: What the model says.
        request: The body of the request.
        number: Of the request, from 1; makes IDs differ.
    """
    match api:
        case "responses":
            return list(_responses_events(reply, request, number))
        case "chat_completions":
            return list(_chat_events(reply, request, number))
        case "messages":
            return list(_messages_events(reply, request, number))
        case _:
            assert_never(api)


def encode_event(event: StreamEvent) -> bytes:
    """Return an event as server-sent event text."""
    name, data = event
    # With escapes, so that a script can send what UTF-8 has no bytes for.
    line = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    named = "" if name is None else f"event: {name}\n"
    return f"{named}data: {line}\n\n".encode()


def _responses_events(reply: ModelServerReply, request: dict[str, Any], number: int) -> Iterator[StreamEvent]:
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": request.get("model"),
        "status": "in_progress",
        "output": [],
    }
    sequence = 0

    def event(kind: str, **fields: Any) -> StreamEvent:
        nonlocal sequence
        sequence += 1
        return kind, {"type": kind, "sequence_number": sequence, **fields}

    yield event("response.created", response=response)
    status = "incomplete" if reply.is_cut_off else "completed"
    output: list[dict[str, Any]] = []
    for item, deltas in _responses_items(reply, request, number, status):
        index = len(output)
        output.append(item)
        begun: dict[str, Any] = {key: [] if is_json_array(value) else value for key, value in item.items()}
        yield event("response.output_item.added", output_index=index, item=begun | {"status": "in_progress"})
        for kind, fields in deltas:
            yield event(kind, output_index=index, item_id=item["id"], **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    reason = reply.finish_reason or ("max_output_tokens" if reply.is_cut_off else None)
    ended = "completed" if reason is None else "incomplete"
    usage = reply.usage
    yield event(
        f"response.{ended}",
        response=response
        | {
            "status": ended,
            "output": output,
            "incomplete_details": None if reason is None else {"reason": reason},
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cached_input_tokens,
                    "cache_write_tokens": usage.cache_write_tokens,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
        },
    )


_Deltas = list[tuple[str, dict[str, Any]]]


def _responses_items(
    reply: ModelServerReply, request: dict[str, Any], number: int, status: str
) -> Iterator[tuple[dict[str, Any], _Deltas]]:
    if reply.reasoning:
        item: dict[str, Any] = {
            "id": f"rs_{number}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply.reasoning}],
        }
        if "reasoning.encrypted_content" in request.get("include", ()):
            item["encrypted_content"] = reply.signature
        kind = "response.reasoning_summary_text.delta"
        yield item, [(kind, {"summary_index": 0, "delta": piece}) for piece in _pieces(reply.reasoning)]
    if reply.text or reply.refusal:
        part: dict[str, Any] = (
            {"type": "output_text", "text": reply.text, "annotations": []}
            if reply.text
            else {"type": "refusal", "refusal": reply.refusal}
        )
        kind = "response.output_text.delta" if reply.text else "response.refusal.delta"
        yield (
            {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": [part],
            },
            [(kind, {"content_index": 0, "delta": piece}) for piece in _pieces(reply.text or reply.refusal)],
        )
    for index, (model_call_id, name, pieces) in enumerate(_calls(reply, number)):
        kind = "response.function_call_arguments.delta"
        yield (
            {
                "id": f"fc_{number}_{index}",
                "type": "function_call",
                "status": status,
                "call_id": model_call_id,
                "name": name,
                "arguments": "".join(pieces),
            },
            [(kind, {"delta": piece}) for piece in pieces],
        )


def _chat_events(reply: ModelServerReply, request: dict[str, Any], number: int) -> Iterator[StreamEvent]:
    def chunk(choices: list[dict[str, Any]], **fields: Any) -> StreamEvent:
        return None, {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": request.get("model"),
            "choices": choices,
            **fields,
        }

    def delta(fields: dict[str, Any], finish_reason: str | None = None) -> StreamEvent:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish_reason}])

    yield delta({"role": "assistant", "content": ""})
    for key, text in (
        ("reasoning_content", reply.reasoning),
        ("content", reply.text),
        ("refusal", reply.refusal),
    ):
        for piece in _pieces(text):
            yield delta({key: piece})
    calls = list(_calls(reply, number))
    for index, (model_call_id, name, pieces) in enumerate(calls):
        begun = {
            "index": index,
            "id": model_call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        yield delta({"tool_calls": [begun]})
        for piece in pieces:
            yield delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    finished = "length" if reply.is_cut_off else "tool_calls" if calls else "stop"
    yield delta({}, reply.finish_reason or finished)
    if request.get("stream_options", {}).get("include_usage"):
        usage = reply.usage
        yield chunk(
            [],
            usage={
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        )
    yield None, "[DONE]"


def _messages_events(reply: ModelServerReply, request: dict[str, Any], number: int) -> Iterator[StreamEvent]:
    def event(kind: str, **fields: Any) -> StreamEvent:
        return kind, {"type": kind, **fields}

    usage = reply.usage
    counted = {
        "input_tokens": usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counted | {"output_tokens": 1},
    }
    yield event("message_start", message=message)
    yield event("ping")
    for index, (block, deltas) in enumerate(_messages_blocks(reply, number)):
        yield event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stopped = "tool_use" if reply.tool_calls else "refusal" if reply.refusal else "end_turn"
    yield event(
        "message_delta",
        delta={
            "stop_reason": reply.finish_reason or ("max_tokens" if reply.is_cut_off else stopped),
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": reply.refusal}
            if reply.refusal
            else None,
        },
        usage={
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        },
    )
    yield event("message_stop")


def _messages_blocks(
    reply: ModelServerReply, number: int
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.reasoning:
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                *({"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.reasoning)),
                {"type": "signature_delta", "signature": reply.signature},
            ],
        )
    if reply.redacted:
        yield {"type": "redacted_thinking", "data": reply.redacted}, []
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
        yield {"type": "text", "text": ""}, deltas
    for model_call_id, name, pieces in _calls(reply, number):
        yield (
            {"type": "tool_use", "id": model_call_id, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )


def _calls(reply: ModelServerReply, number: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the ID, the name and the pieces of the arguments of each call."""
    for index, call in enumerate(reply.tool_calls):
        written = arguments_text(call)
        pieces = [written[: len(written) // 2], written[len(written) // 2 :]]
        if reply.is_cut_off and call is reply.tool_calls[-1]:
            pieces.pop()
        yield (
            f"call_{number}_{index}" if call.model_call_id is None else call.model_call_id,
            call.tool_name,
            pieces,
        )


def _pieces(text: str) -> list[str]:
    return cast("list[str]", _PIECES.findall(text))
