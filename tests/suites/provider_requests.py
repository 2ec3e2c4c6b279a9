"""What a request to a provider must be: of the SDK's own types, field by field, and paired by its rules."""

from __future__ import annotations

import collections.abc
import functools
import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

import typing_extensions
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from dex_agents.testing import ModelApi

__all__ = ["require_valid_request"]

_TYPES: Final[dict[ModelApi, Any]] = {
    "responses": ResponseCreateParamsStreaming,
    "chat_completions": CompletionCreateParamsStreaming,
    "messages": MessageCreateParamsStreaming,
}
_LONGEST_CALL_IDS: Final[dict[ModelApi, int]] = {"responses": 64, "chat_completions": 40, "messages": 64}
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def require_valid_request(api: ModelApi, body: dict[str, Any]) -> None:
    """Raise unless the provider would take the request."""
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    _adapter_of(api).validate_python(body, strict=True)
    match api:
        case "responses":
            _require_responses_rules(body)
        case "chat_completions":
            _require_chat_rules(body)
        case "messages":
            _require_messages_rules(body)
    assert bool(body.get("tools")) or "tool_choice" not in body


@functools.cache
def _adapter_of(api: ModelApi) -> TypeAdapter[Any]:
    return TypeAdapter(_closed(_TYPES[api], ()))


def _closed(kind: Any, within: tuple[Any, ...]) -> Any:
    """Return a type with the same members that takes no unknown field and checks sequences at once."""
    if typing_extensions.is_typeddict(kind):
        return dict[str, object] if kind in within else _closed_typed_dict(kind, (*within, kind))
    origin, arguments = typing_extensions.get_origin(kind), typing_extensions.get_args(kind)
    inner = tuple(_closed(argument, within) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[inner]  # noqa: UP007  # the members are known at run time only
    if origin in (collections.abc.Iterable, collections.abc.Sequence, list) or (
        getattr(origin, "__name__", "") == "SequenceNotStr"
    ):
        return list[inner[0]]
    if origin is dict:
        return dict[inner]  # pyright: ignore[reportInvalidTypeArguments]
    if origin in (typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.Annotated):
        return inner[0]
    return kind


def _closed_typed_dict(kind: Any, within: tuple[Any, ...]) -> Any:
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    members = {
        key: (typing_extensions.Required if key in kind.__required_keys__ else typing_extensions.NotRequired)[
            _closed(hint, within)
        ]
        for key, hint in hints.items()
    }
    closed: Any = typing_extensions.TypedDict(kind.__name__, members)  # pyright: ignore[reportArgumentType]
    own: dict[str, Any] = getattr(kind, "__pydantic_config__", {})
    closed.__pydantic_config__ = {"extra": "forbid"} | own
    return closed


def _require_calls(api: ModelApi, calls: list[tuple[str, str, Any]], taken: set[str]) -> list[str]:
    """Check the calls of one answer, and return their IDs."""
    for call_id, name, arguments in calls:
        assert 1 <= len(call_id) <= _LONGEST_CALL_IDS[api]
        assert set(call_id) <= _NAME_CHARACTERS
        assert call_id not in taken, "an ID names two calls"
        taken.add(call_id)
        assert 1 <= len(name) <= 64
        assert set(name) <= _NAME_CHARACTERS
        value = json.loads(arguments, parse_constant=_refuse) if isinstance(arguments, str) else arguments
        assert isinstance(value, dict)
    return [call_id for call_id, _, _ in calls]


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def _require_responses_rules(body: dict[str, Any]) -> None:
    assert body["store"] is False
    items: list[dict[str, Any]] = body["input"]
    assert items
    assert items[0].get("role") == "user"
    taken: set[str] = set()
    waiting: list[str] = []
    are_results = False
    for position, item in enumerate(items):
        match item["type"]:
            case "function_call":
                assert not are_results or not waiting, "a call between the results of another answer"
                are_results = False
                waiting += _require_calls(
                    "responses", [(item["call_id"], item["name"], item["arguments"])], taken
                )
            case "function_call_output":
                assert item["call_id"] == waiting.pop(0), "a result that is not the next one"
                read = [text.strip() for text in _texts(item["output"])]
                assert read
                assert all(read)
                are_results = True
            case "reasoning":
                assert "include" in body, "reasoning for a model that takes none"
                assert not waiting or not are_results
                assert item.get("encrypted_content") or item.get("content")
                follower = items[position + 1]
                assert follower["type"] in ("reasoning", "function_call") or follower["role"] == "assistant"
            case "message":
                assert not (item["role"] == "user" and waiting), "a user message before all results"
                assert not are_results or not waiting
                for text in _texts(item["content"]):
                    assert text.strip()
            case other:
                raise AssertionError(other)
    assert not waiting


def _require_chat_rules(body: dict[str, Any]) -> None:
    messages: list[dict[str, Any]] = body["messages"]
    spoken = messages[1:] if messages[0]["role"] == "system" else messages
    assert spoken[0]["role"] == "user"
    taken: set[str] = set()
    waiting: list[str] = []
    before = ""
    for message in spoken:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] == waiting.pop(0), "a result that is not the next one"
        else:
            assert not waiting, f"a {role} message before all results"
        assert not (role == before == "user")
        if role == "assistant":
            assert message["content"] or message.get("tool_calls")
            calls = [
                (call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls", ())
            ]
            waiting = _require_calls("chat_completions", calls, taken)
        if message["content"] is not None:
            said = [text.strip() for text in _texts(message["content"])]
            assert said
            assert all(said)
        before = role
    assert not waiting


def _require_messages_rules(body: dict[str, Any]) -> None:
    messages: list[dict[str, Any]] = body["messages"]
    assert [message["role"] for message in messages] == [
        "assistant" if index % 2 else "user" for index in range(len(messages))
    ]
    assert messages[-1]["role"] == "user", "the provider would go on with the answer"
    taken: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        content: list[dict[str, Any]] = message["content"]
        assert content
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if message["role"] == "user":
            assert results == waiting, "not exactly the results of the answer before"
            assert [block["type"] for block in content[: len(results)]] == ["tool_result"] * len(results)
            waiting = []
        else:
            assert not results
            calls = [
                (block["id"], block["name"], block["input"])
                for block in content
                if block["type"] == "tool_use"
            ]
            waiting = _require_calls("messages", calls, taken)
        for block in content:
            if block["type"] == "thinking":
                assert block["signature"]
            for text in _texts([block]):
                assert text.strip()
    _require_thinking_rules(body)
    assert json.dumps(body).count('"cache_control"') <= 4
    assert not taken or body.get("tools"), "calls of tools that are not declared"


def _require_thinking_rules(body: dict[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    assert body.get("tool_choice", {"type": "auto"})["type"] in ("auto", "none")
    if thinking["type"] != "enabled":
        return
    assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    begun: dict[str, Any] | None = None
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            begun = message
        elif message["content"][0]["type"] != "tool_result":
            break
    assert begun is None or begun["content"][0]["type"] in ("thinking", "redacted_thinking")


def _texts(content: str | list[dict[str, Any]]) -> Iterator[str]:
    """Yield every text of a message, those within results too."""
    if isinstance(content, str):
        yield content
        return
    for part in content:
        for key in ("text", "refusal"):
            if key in part:
                yield part[key]
        yield from _texts(part.get("content") or [])
