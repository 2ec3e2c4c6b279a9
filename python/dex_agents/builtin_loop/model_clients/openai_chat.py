"""The Chat Completions API, which every compatible server speaks: requests, and the reading of its streams.

Its answers are text and calls and nothing to send back unchanged, so they have no `item`. Servers differ in
what they leave out of a stream; what is read here is what all of them agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dex_agents import texts
from dex_agents.builtin_loop.contract import (
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.model_clients.call_ids import RequestCallIds
from dex_agents.builtin_loop.model_clients.image_parts import build_data_url
from dex_agents.builtin_loop.model_clients.provider_errors import build_call_error
from dex_agents.builtin_loop.model_clients.provider_json import count_at, object_at, objects_at, text_at
from dex_agents.errors import ModelCallError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.usage import AgentUsage

__all__ = ["ChatCompletionsFold", "build_chat_request"]

_LONGEST_CALL_ID: Final = 40
_CUT_OFF: Final = "length"
_FILTERED: Final = "content_filter"


def build_chat_request(
    request: ModelRequest,
    *,
    model: str,
    max_output_tokens: int | None = None,
    limit_field: str = "max_tokens",
    request_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a request; pure.

    Args:
        request: What the loop asks.
        model: As the server names it.
        max_output_tokens: Of the answer; `None` for the server's own limit.
        limit_field: What the server calls that.
        request_fields: More fields of the body; they win.
    """
    ids = RequestCallIds(_LONGEST_CALL_ID)
    open_ids: list[str] = []
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    results_with_images: list[ModelToolResultItem] = []
    for item in request.items:
        match item:
            case ModelUserTextItem():
                _add_user_parts(messages, _parts(request, item.text, item.images))
            case ModelOutputItem():
                message = _assistant_message(item, ids)
                open_ids.extend(call["id"] for call in message.get("tool_calls", ()))
                messages.append(message)
            case ModelToolResultItem():
                messages.append({"role": "tool", "tool_call_id": open_ids.pop(0), "content": item.output})
                if item.images:
                    results_with_images.append(item)
                if not open_ids:
                    # Its tool messages take no images: they follow when all results stand together.
                    for result in results_with_images:
                        header = texts.tool_images_header(result.tool_name)
                        _add_user_parts(messages, _parts(request, header, result.images))
                    results_with_images.clear()
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
    if max_output_tokens is not None:
        body[limit_field] = max_output_tokens
    return body | dict(request_fields or {})


class _GrowingCall:
    """A call of which pieces arrive."""

    def __init__(self, index: object) -> None:
        self.index = index
        self.model_call_id = ""
        self.name = ""
        self.arguments: list[str] = []


class ChatCompletionsFold:
    """Folds the chunks of one answer; see `AnswerFold`."""

    def __init__(self, provider: str, model: str) -> None:
        """Begin an answer.

        Args:
            provider: Named in errors.
            model: Who was asked.
        """
        self._provider = provider
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_GrowingCall] = []
        self._finish_reason = ""
        self._usage: dict[str, Any] = {}
        self._response_id = ""
        self._response_model = ""

    def feed(self, event: dict[str, Any], events: AgentEventWriter) -> None:
        """Take the next chunk; see `AnswerFold.feed`."""
        if event.get("error"):
            raise build_call_error(self._provider, "the answer failed", body=event)
        self._response_id = self._response_id or text_at(event, "id")
        self._response_model = self._response_model or text_at(event, "model")
        self._usage = object_at(event, "usage") or self._usage
        for choice in objects_at(event, "choices")[:1]:
            self._finish_reason = text_at(choice, "finish_reason") or self._finish_reason
            self._take_delta(object_at(choice, "delta"), events)

    def finish(self) -> ModelResponse:
        """Return the whole answer; see `AnswerFold.finish`."""
        if not self._finish_reason:
            raise ModelCallError(self._provider, "the stream ended before the answer did")
        refusal = "".join(self._refusal)
        is_cut = self._finish_reason in (_CUT_OFF, _FILTERED)
        return ModelResponse(
            text="".join(self._text) or refusal,
            tool_calls=tuple(
                ModelToolCall(
                    call.model_call_id,
                    call.name,
                    # Of an answer that was cut, empty arguments are ones that never came.
                    "".join(call.arguments) or ("" if is_cut and call is self._calls[-1] else "{}"),
                )
                for call in self._calls
            ),
            reasoning="".join(self._reasoning),
            usage=_read_usage(self._usage),
            finish_reason="refusal" if refusal else self._finish_reason,
            refusal=_FILTERED if self._finish_reason == _FILTERED else "",
            request_model=self._model,
            response_model=self._response_model or None,
            response_id=self._response_id or None,
        )

    def _take_delta(self, delta: dict[str, Any], events: AgentEventWriter) -> None:
        # Vendors agree on no name for reasoning; one that sends both sends the same text twice.
        reasoning = text_at(delta, "reasoning_content") or text_at(delta, "reasoning")
        if reasoning:
            self._reasoning.append(reasoning)
            events.write_reasoning_delta(reasoning)
        for key, kept in (("content", self._text), ("refusal", self._refusal)):
            text = text_at(delta, key)
            if text:
                kept.append(text)
                events.write_text_delta(text)
        for piece in objects_at(delta, "tool_calls"):
            self._take_call(piece)

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = object_at(piece, "function")
        call = self._find_call(piece.get("index"), text_at(piece, "id"), text_at(function, "name"))
        call.model_call_id = call.model_call_id or text_at(piece, "id")
        call.name = call.name or text_at(function, "name")
        call.arguments.append(text_at(function, "arguments"))

    def _find_call(self, index: object, model_call_id: str, name: str) -> _GrowingCall:
        """Return the call that a piece belongs to, a new one for a piece that begins one."""
        found = next((call for call in reversed(self._calls) if call.index == index), None)
        # Some servers give all calls of an answer one index, or none; then the ID tells them apart, and
        # without an ID a piece with a name begins a call.
        if found is not None and model_call_id and found.model_call_id != model_call_id:
            found = None
        if found is not None and index is None and name and not model_call_id:
            found = None
        if found is None:
            found = _GrowingCall(index)
            self._calls.append(found)
        return found


def _parts(request: ModelRequest, text: str, images: tuple[AgentImageReference, ...]) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": text},
        *({"type": "image_url", "image_url": {"url": build_data_url(request, image)}} for image in images),
    ]


def _add_user_parts(messages: list[dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    """Add what the user says; without images as plain text, which every server takes."""
    if messages and messages[-1]["role"] == "user":
        # Templates of small models refuse two user messages in a row.
        before: Any = messages[-1]["content"]
        if isinstance(before, str) and len(parts) == 1:
            messages[-1]["content"] = f"{before}\n\n{parts[0]['text']}"
        else:
            earlier = [{"type": "text", "text": before}] if isinstance(before, str) else before
            messages[-1]["content"] = [*earlier, *parts]
    else:
        messages.append({"role": "user", "content": parts[0]["text"] if len(parts) == 1 else parts})


def _assistant_message(item: ModelOutputItem, ids: RequestCallIds) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    # Servers differ in whether `content` may be left out beside calls; all of them take null there.
    message["content"] = item.text or None
    if item.tool_calls:
        message["tool_calls"] = [
            {
                "type": "function",
                "id": ids.assign(call.model_call_id),
                "function": {"name": call.tool_name, "arguments": call.arguments},
            }
            for call in item.tool_calls
        ]
    return message


def _read_usage(usage: dict[str, Any]) -> AgentUsage:
    details = object_at(usage, "prompt_tokens_details")
    return AgentUsage(
        input_tokens=count_at(usage, "prompt_tokens"),
        output_tokens=count_at(usage, "completion_tokens"),
        cached_input_tokens=count_at(details, "cached_tokens"),
        cache_write_tokens=count_at(details, "cache_write_tokens"),
        reasoning_tokens=count_at(object_at(usage, "completion_tokens_details"), "reasoning_tokens"),
    )
