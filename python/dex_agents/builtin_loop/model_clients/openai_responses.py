"""The Responses API of OpenAI: requests that the server keeps nothing of, and the reading of its streams.

The provider's own items, encrypted reasoning included, are the `item` of an answer: a JSON array, sent back
as it came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from dex_agents.builtin_loop.contract import (
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.json_values import is_json_array, is_json_object
from dex_agents.builtin_loop.model_clients.call_ids import RequestCallIds
from dex_agents.builtin_loop.model_clients.image_parts import build_data_url
from dex_agents.builtin_loop.model_clients.provider_errors import build_call_error
from dex_agents.builtin_loop.model_clients.provider_json import (
    array_at,
    count_at,
    object_at,
    objects_at,
    text_at,
)
from dex_agents.errors import ModelCallError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.usage import AgentUsage

__all__ = ["ResponsesFold", "build_responses_request"]

_LONGEST_CALL_ID: Final = 64
_REASONING_DELTAS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)


def build_responses_request(
    request: ModelRequest,
    *,
    model: str,
    encrypted_reasoning: bool,
    max_output_tokens: int | None = None,
    request_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a request; pure.

    Args:
        request: What the loop asks.
        model: As the provider names it.
        encrypted_reasoning: Whether the model takes reasoning, and is asked for it in a form that can be sent
            back. An answer with reasoning is told to one that does not in text and calls.
        max_output_tokens: Of the answer, reasoning included; `None` for the model's own limit.
        request_fields: More fields of the body; they win.
    """
    ids = RequestCallIds(_LONGEST_CALL_ID)
    open_ids: list[str] = []
    sent: list[dict[str, Any]] = []
    for item in request.items:
        match item:
            case ModelUserTextItem():
                sent.append(
                    {"type": "message", "role": "user", "content": _parts(request, item.text, item.images)}
                )
            case ModelOutputItem():
                output = _output_items(item, ids, takes_reasoning=encrypted_reasoning)
                open_ids.extend(one["call_id"] for one in output if one.get("type") == "function_call")
                sent.extend(output)
            case ModelToolResultItem():
                sent.append(
                    {
                        "type": "function_call_output",
                        "call_id": open_ids.pop(0),
                        "output": _parts(request, item.output, item.images) if item.images else item.output,
                    }
                )
    body: dict[str, Any] = {"model": model, "input": sent, "store": False, "stream": True}
    if request.instructions:
        body["instructions"] = request.instructions
    if encrypted_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
    if max_output_tokens is not None:
        body["max_output_tokens"] = max_output_tokens
    return body | dict(request_fields or {})


class ResponsesFold:
    """Folds the events of one answer; see `AnswerFold`."""

    def __init__(self, provider: str, model: str) -> None:
        """Begin an answer.

        Args:
            provider: Named in errors.
            model: Who was asked.
        """
        self._provider = provider
        self._model = model
        self._items: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._response: dict[str, Any] | None = None

    def feed(self, event: dict[str, Any], events: AgentEventWriter) -> None:
        """Take the next event; see `AnswerFold.feed`."""
        kind = text_at(event, "type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            events.write_text_delta(text_at(event, "delta"))
        elif kind in _REASONING_DELTAS:
            delta = text_at(event, "delta")
            self._reasoning.append(delta)
            events.write_reasoning_delta(delta)
        elif kind == "response.output_item.done":
            self._items.append(object_at(event, "item"))
        elif kind in ("response.completed", "response.incomplete"):
            self._response = object_at(event, "response")
        elif kind == "response.failed":
            raise build_call_error(
                self._provider, "the answer failed", body=object_at(object_at(event, "response"), "error")
            )
        elif kind == "error":
            raise build_call_error(self._provider, "the answer failed", body=event)

    def finish(self) -> ModelResponse:
        """Return the whole answer; see `AnswerFold.finish`."""
        response = self._response
        if response is None:
            raise ModelCallError(self._provider, "the stream ended before the answer did")
        items = self._items or objects_at(response, "output")
        parts = [
            part for item in items if item.get("type") == "message" for part in objects_at(item, "content")
        ]
        refusal = "".join(text_at(part, "refusal") for part in parts)
        reason = text_at(object_at(response, "incomplete_details"), "reason")
        return ModelResponse(
            text="".join(text_at(part, "text") for part in parts) or refusal,
            tool_calls=tuple(_read_calls(items, is_cut=bool(reason))),
            item=_native_item(items),
            reasoning="".join(self._reasoning),
            usage=_read_usage(object_at(response, "usage")),
            finish_reason="refusal" if refusal else reason or text_at(response, "status") or None,
            refusal=reason if reason == "content_filter" else "",
            request_model=self._model,
            response_model=text_at(response, "model") or None,
            response_id=text_at(response, "id") or None,
        )


def _parts(request: ModelRequest, text: str, images: tuple[AgentImageReference, ...]) -> list[dict[str, Any]]:
    return [
        {"type": "input_text", "text": text},
        *(
            {"type": "input_image", "image_url": build_data_url(request, image), "detail": "auto"}
            for image in images
        ),
    ]


def _output_items(
    item: ModelOutputItem, ids: RequestCallIds, *, takes_reasoning: bool
) -> list[dict[str, Any]]:
    native = _replayable_items(item)
    if native is not None and (takes_reasoning or all(one.get("type") != "reasoning" for one in native)):
        return [
            {**one, "call_id": ids.assign(text_at(one, "call_id"))}
            if one.get("type") == "function_call"
            else one
            for one in native
        ]
    said: list[dict[str, Any]] = []
    if item.text:
        said.append({"type": "message", "role": "assistant", "content": item.text})
    said.extend(
        {
            "type": "function_call",
            "call_id": ids.assign(call.model_call_id),
            "name": call.tool_name,
            "arguments": call.arguments,
        }
        for call in item.tool_calls
    )
    return said


def _replayable_items(item: ModelOutputItem) -> list[dict[str, Any]] | None:
    """Return the native items when they are what the text and the calls say, else `None`."""
    if item.item is None:
        return None
    decoded: Any = json.loads(item.item)
    if not is_json_array(decoded) or not all(map(is_json_object, decoded)):
        return None
    native: list[dict[str, Any]] = decoded
    if not all(map(_is_whole, native)):
        return None
    calls = [
        (text_at(one, "name"), text_at(one, "arguments"))
        for one in native
        if one.get("type") == "function_call"
    ]
    asked = [(call.tool_name, call.arguments) for call in item.tool_calls]
    return native if native and calls == asked else None


def _read_calls(items: list[dict[str, Any]], *, is_cut: bool) -> list[ModelToolCall]:
    calls = [item for item in items if item.get("type") == "function_call"]
    return [
        ModelToolCall(
            text_at(call, "call_id"),
            text_at(call, "name"),
            # Of an answer that was cut, empty arguments are ones that never came.
            text_at(call, "arguments") or ("" if is_cut and call is calls[-1] else "{}"),
        )
        for call in calls
    ]


def _native_item(items: list[dict[str, Any]]) -> str | None:
    """Return what can be sent back as it is, or `None` when something of it could not be.

    Reasoning is refused without the item that it led to, and without its content: the server keeps nothing
    that its ID could name.
    """
    kept = list(items)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    if not kept or not all(map(_is_whole, kept)):
        return None
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _is_whole(item: dict[str, Any]) -> bool:
    match item.get("type"):
        case "reasoning":
            return bool(text_at(item, "encrypted_content") or array_at(item, "content"))
        case "function_call":
            return bool(text_at(item, "arguments"))
        case "message":
            parts = objects_at(item, "content")
            return bool(parts) and all(
                text_at(part, "text").strip() or text_at(part, "refusal").strip() for part in parts
            )
        case kind:
            return isinstance(kind, str)


def _read_usage(usage: dict[str, Any]) -> AgentUsage:
    details = object_at(usage, "input_tokens_details")
    return AgentUsage(
        input_tokens=count_at(usage, "input_tokens"),
        output_tokens=count_at(usage, "output_tokens"),
        cached_input_tokens=count_at(details, "cached_tokens"),
        cache_write_tokens=count_at(details, "cache_write_tokens"),
        reasoning_tokens=count_at(object_at(usage, "output_tokens_details"), "reasoning_tokens"),
    )
