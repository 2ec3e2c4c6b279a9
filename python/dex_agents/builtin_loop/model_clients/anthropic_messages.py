"""The Messages API of Anthropic: requests, and the reading of its streams.

The blocks of an answer, thinking with its signatures included, are its `item`: a JSON array, sent back as it
came. All results of one answer stand together in the user message after it.
"""

from __future__ import annotations

import json
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
from dex_agents.builtin_loop.json_values import is_json_array, is_json_object
from dex_agents.builtin_loop.model_clients.call_ids import RequestCallIds
from dex_agents.builtin_loop.model_clients.image_parts import encode_image
from dex_agents.builtin_loop.model_clients.provider_errors import build_call_error
from dex_agents.builtin_loop.model_clients.provider_json import array_at, count_at, object_at, text_at
from dex_agents.errors import ModelCallError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.usage import AgentUsage

__all__ = ["MessagesFold", "build_messages_request"]

_LONGEST_CALL_ID: Final = 64
_CUT_OFF: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_CACHE_MARK: Final = {"type": "ephemeral"}
_MARKED_MESSAGES: Final = 2
"""User messages with a mark. The provider looks back from a mark over 20 blocks only, and one answer may have
asked for more tools than that: so the end of the request before this one is marked too."""


def build_messages_request(
    request: ModelRequest,
    *,
    model: str,
    max_output_tokens: int,
    thinking: Mapping[str, Any] | None = None,
    prompt_caching: bool = True,
    request_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a request; pure.

    Args:
        request: What the loop asks.
        model: As the provider names it.
        max_output_tokens: Of the answer, thinking included.
        thinking: The provider's own `thinking` field. It is left out where the provider would refuse it: with
            a tool choice of `required`, and with `enabled` where an answer that began without it goes on.
        prompt_caching: Whether to mark what the next request will begin with.
        request_fields: More fields of the body; they win.
    """
    messages = _build_messages(request)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_output_tokens,
        "messages": messages,
        "stream": True,
    }
    if request.instructions.strip():
        body["system"] = [{"type": "text", "text": request.instructions}]
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    if tools:
        body["tools"] = tools
        body["tool_choice"] = {"type": "any" if request.tool_choice == "required" else "auto"}
    elif used := _used_tools(request):
        # The provider wants the tools of the conversation declared, even where none may be called.
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in used]
        body["tool_choice"] = {"type": "none"}
    if thinking is not None and _takes_thinking(thinking, request, messages):
        body["thinking"] = dict(thinking)
    if prompt_caching:
        _mark(body)
    return body | dict(request_fields or {})


class _GrowingBlock:
    """A block of which pieces arrive."""

    def __init__(self, begun: dict[str, Any]) -> None:
        self._begun = begun
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[dict[str, Any]] = []

    @property
    def kind(self) -> str:
        return text_at(self._begun, "type")

    def text(self, key: str) -> str:
        return text_at(self._begun, key) + "".join(self._pieces.get(key, ()))

    def append(self, key: str, piece: str) -> str:
        self._pieces.setdefault(key, []).append(piece)
        return piece

    def cite(self, citation: dict[str, Any]) -> None:
        self._citations.append(citation)

    def written_input(self) -> str:
        whole = object_at(self._begun, "input")
        return self.text("partial_json") or (json.dumps(whole, ensure_ascii=False) if whole else "")

    def whole(self) -> dict[str, Any] | None:
        """Return the block as it can be sent back, or `None` when its arguments are no JSON."""
        grown: dict[str, Any] = {key: self.text(key) for key in self._pieces if key != "partial_json"}
        if self._citations:
            grown["citations"] = [*array_at(self._begun, "citations"), *self._citations]
        if self.kind == "tool_use":
            try:
                grown["input"] = json.loads(self.written_input() or "{}")
            except (ValueError, RecursionError):
                return None
        return self._begun | grown


class MessagesFold:
    """Folds the events of one answer; see `AnswerFold`."""

    def __init__(self, provider: str, model: str) -> None:
        """Begin an answer.

        Args:
            provider: Named in errors.
            model: Who was asked.
        """
        self._provider = provider
        self._model = model
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, _GrowingBlock] = {}
        self._usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}
        self._has_ended = False

    def feed(self, event: dict[str, Any], events: AgentEventWriter) -> None:
        """Take the next event; see `AnswerFold.feed`."""
        match text_at(event, "type"):
            case "message_start":
                self._message = object_at(event, "message")
                self._usage = object_at(self._message, "usage")
            case "content_block_start":
                block = _GrowingBlock(object_at(event, "content_block"))
                self._blocks[count_at(event, "index")] = block
                events.write_text_delta(block.text("text"))
                events.write_reasoning_delta(block.text("thinking"))
            case "content_block_delta":
                self._grow(count_at(event, "index"), object_at(event, "delta"), events)
            case "message_delta":
                self._stop = object_at(event, "delta")
                # Counts are cumulative; one that is not told again keeps its value.
                told = {key: count for key, count in object_at(event, "usage").items() if count is not None}
                self._usage = self._usage | told
            case "message_stop":
                self._has_ended = True
            case "error":
                raise build_call_error(self._provider, "the answer failed", body=event)
            case _:
                pass

    def finish(self) -> ModelResponse:
        """Return the whole answer; see `AnswerFold.finish`."""
        if not self._has_ended:
            raise ModelCallError(self._provider, "the stream ended before the answer did")
        stop_reason = text_at(self._stop, "stop_reason")
        blocks = [block for _, block in sorted(self._blocks.items())]
        return ModelResponse(
            text="".join(block.text("text") for block in blocks if block.kind == "text"),
            tool_calls=tuple(
                ModelToolCall(
                    block.text("id"),
                    block.text("name"),
                    # Of an answer that was cut, empty arguments are ones that never came.
                    block.written_input()
                    or ("" if stop_reason in _CUT_OFF and block is blocks[-1] else "{}"),
                )
                for block in blocks
                if block.kind == "tool_use"
            ),
            item=_native_item(blocks),
            reasoning="".join(block.text("thinking") for block in blocks if block.kind == "thinking"),
            usage=_read_usage(self._usage),
            finish_reason=stop_reason or None,
            refusal=_read_refusal(self._stop) if stop_reason == "refusal" else "",
            request_model=self._model,
            response_model=text_at(self._message, "model") or None,
            response_id=text_at(self._message, "id") or None,
        )

    def _grow(self, index: int, delta: dict[str, Any], events: AgentEventWriter) -> None:
        block = self._blocks.get(index)
        if block is None:
            raise ModelCallError(self._provider, "sent a piece of a block that it did not begin")
        match text_at(delta, "type"):
            case "text_delta":
                events.write_text_delta(block.append("text", text_at(delta, "text")))
            case "thinking_delta":
                events.write_reasoning_delta(block.append("thinking", text_at(delta, "thinking")))
            case "signature_delta":
                block.append("signature", text_at(delta, "signature"))
            case "input_json_delta":
                block.append("partial_json", text_at(delta, "partial_json"))
            case "citations_delta":
                block.cite(object_at(delta, "citation"))
            case _:
                pass


def _native_item(blocks: list[_GrowingBlock]) -> str | None:
    native: list[dict[str, Any]] = []
    for block in blocks:
        if block.kind == "text" and not block.text("text").strip():
            # Refused in a request, and never part of what is signed.
            continue
        whole = block.whole()
        if whole is None:
            return None
        native.append(whole)
    return json.dumps(native, ensure_ascii=False, separators=(",", ":")) if native else None


def _read_refusal(stop: dict[str, Any]) -> str:
    details = object_at(stop, "stop_details")
    return text_at(details, "explanation") or text_at(details, "category") or "refusal"


def _build_messages(request: ModelRequest) -> list[dict[str, Any]]:
    ids = RequestCallIds(_LONGEST_CALL_ID)
    open_ids: list[str] = []
    messages: list[dict[str, Any]] = []

    def add(role: str, blocks: list[dict[str, Any]]) -> None:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})

    for item in request.items:
        match item:
            case ModelUserTextItem():
                add("user", _blocks(request, item.text, item.images))
            case ModelOutputItem():
                blocks = _output_blocks(item, ids)
                open_ids.extend(block["id"] for block in blocks if block.get("type") == "tool_use")
                add("assistant", blocks)
            case ModelToolResultItem():
                result = {"type": "tool_result", "tool_use_id": open_ids.pop(0)}
                add("user", [{**result, "content": _blocks(request, item.output, item.images)}])
    if messages and messages[-1]["role"] == "assistant":
        # Else the provider would take the answer for the beginning of the next one.
        add("user", [{"type": "text", "text": texts.GO_ON}])
    return messages


def _blocks(
    request: ModelRequest, text: str, images: tuple[AgentImageReference, ...]
) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": text},
        *(
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": image.mime_type,
                    "data": encode_image(request, image),
                },
            }
            for image in images
        ),
    ]


def _output_blocks(item: ModelOutputItem, ids: RequestCallIds) -> list[dict[str, Any]]:
    native = _replayable_blocks(item)
    if native is not None:
        return [
            {**block, "id": ids.assign(text_at(block, "id"))} if block.get("type") == "tool_use" else block
            for block in native
        ]
    blocks: list[dict[str, Any]] = []
    if item.text:
        blocks.append({"type": "text", "text": item.text})
    blocks.extend(
        {
            "type": "tool_use",
            "id": ids.assign(call.model_call_id),
            "name": call.tool_name,
            "input": json.loads(call.arguments),
        }
        for call in item.tool_calls
    )
    return blocks


def _replayable_blocks(item: ModelOutputItem) -> list[dict[str, Any]] | None:
    """Return the native blocks when their calls are the calls of the item, else `None`."""
    if item.item is None:
        return None
    decoded: Any = json.loads(item.item)
    if not is_json_array(decoded) or not all(map(is_json_object, decoded)):
        return None
    native: list[dict[str, Any]] = decoded
    if not all(text_at(block, "type") for block in native):
        return None
    calls = [text_at(block, "name") for block in native if block.get("type") == "tool_use"]
    return native if native and calls == [call.tool_name for call in item.tool_calls] else None


def _used_tools(request: ModelRequest) -> list[str]:
    """Return the names of the tools that the conversation called, each once, in order."""
    return list(
        dict.fromkeys(
            call.tool_name
            for item in request.items
            if isinstance(item, ModelOutputItem)
            for call in item.tool_calls
        )
    )


def _takes_thinking(
    thinking: Mapping[str, Any], request: ModelRequest, messages: list[dict[str, Any]]
) -> bool:
    if request.tools and request.tool_choice == "required":
        return False
    return thinking.get("type") != "enabled" or not _goes_on_without_thinking(messages)


def _goes_on_without_thinking(messages: list[dict[str, Any]]) -> bool:
    """Whether the model goes on after calls, and began this answer to the user without thinking."""
    begun: dict[str, Any] | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            begun = message
        elif message["content"][0].get("type") != "tool_result":
            break
    return begun is not None and begun["content"][0].get("type") not in _THINKING


def _mark(body: dict[str, Any]) -> None:
    if "system" in body:
        body["system"][-1]["cache_control"] = _CACHE_MARK
    elif "tools" in body:
        body["tools"][-1]["cache_control"] = _CACHE_MARK
    from_users = [message for message in body["messages"] if message["role"] == "user"]
    for message in from_users[-_MARKED_MESSAGES:]:
        message["content"][-1] = {**message["content"][-1], "cache_control": _CACHE_MARK}


def _read_usage(usage: dict[str, Any]) -> AgentUsage:
    read = count_at(usage, "cache_read_input_tokens")
    written = count_at(usage, "cache_creation_input_tokens")
    return AgentUsage(
        input_tokens=count_at(usage, "input_tokens") + read + written,
        output_tokens=count_at(usage, "output_tokens"),
        cached_input_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_at(object_at(usage, "output_tokens_details"), "thinking_tokens"),
    )
