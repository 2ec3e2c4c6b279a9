"""Whatever is stored, a request is one that every provider accepts."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.builtin_loop.contract import (
    ModelInputItem,
    ModelOutputItem,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.input_items import build_input_items
from dex_agents.builtin_loop.stored_items import (
    StoredItem,
    StoredModelOutput,
    StoredToolCall,
    StoredToolResult,
    StoredUserText,
    encode_stored_item,
)
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, MessageRole
from dex_agents.wire.tool_calls import AgentToolCall, ToolEffect

NOW = datetime(2026, 1, 1, tzinfo=UTC)

# Few IDs, so that models repeat them and results find calls, or find none.
ids = st.sampled_from(["a", "b", "c", "a#2", ""])
# JSON escapes can hold a lone surrogate; so can what an older version put into a display field.
any_text = st.one_of(
    st.text(st.characters(codec=None), max_size=8), st.sampled_from(["", " ", "\n", "hi", "x\ud99c", "\x00"])
)
arguments = st.one_of(
    st.dictionaries(st.text(max_size=3), st.integers() | any_text, max_size=2).map(json.dumps),
    any_text,
    st.sampled_from(
        ["", "{", '{"a":', "[]", "null", '{"a":1,"a":2}', '{"a": NaN}', '{"a": "\\ud800"}', "{}"]
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=5,
)
calls = st.fixed_dictionaries(
    {
        "tool_call_id": ids,
        "model_call_id": ids,
        "tool_name": st.one_of(st.sampled_from(["look", "", "bad name", "x" * 70]), any_text),
        "arguments": arguments,
    }
)
good_items = st.one_of(
    st.fixed_dictionaries({"type": st.just("user_text"), "text": any_text}),
    st.fixed_dictionaries(
        {
            "type": st.just("model_output"),
            "provider": st.sampled_from(["acme", "other"]),
            "api": st.sampled_from(["chat", "other"]),
            "item": st.one_of(json_values, st.just([{"type": "text", "text": ""}])),
            "text": st.none() | any_text,
            "tool_calls": st.lists(calls, max_size=4),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_call_id": ids, "tool_name": any_text, "output": any_text}
    ),
)


@st.composite
def framework_items(draw: st.DrawFn) -> str:
    item: dict[str, Any] = draw(good_items)
    match draw(st.sampled_from(["whole", "whole", "whole", "cut", "field lost", "field changed", "other"])):
        case "cut":
            text = json.dumps(item)
            return text[: draw(st.integers(0, len(text)))]
        case "field lost":
            item.pop(draw(st.sampled_from(sorted(item))))
            return json.dumps(item)
        case "field changed":
            item[draw(st.sampled_from(sorted(item)))] = draw(json_values)
            return json.dumps(item)
        case "other":
            return draw(st.one_of(json_values.map(json.dumps), any_text))
        case _:
            return json.dumps(item, ensure_ascii=draw(st.booleans()))


messages = st.lists(
    st.builds(
        AgentMessage,
        sequence=st.just(1),
        turn_id=st.just("turn-1"),
        role=st.sampled_from(["user", "assistant", "tool", "note"]),
        framework_item=framework_items(),
        stored_at=st.just(NOW),
        text=st.none() | any_text,
        tool_call_id=st.none() | ids,
        tool_name=st.none() | any_text,
        tool_output=st.none() | any_text,
    ),
    max_size=12,
)
records = st.lists(
    st.builds(
        AgentToolCall,
        tool_call_id=ids,
        model_call_id=ids,
        turn_id=st.just("turn-1"),
        response_index=st.just(1),
        tool_name=st.just("look"),
        arguments=arguments,
        effect=st.just(ToolEffect.READ),
        status=st.sampled_from(["succeeded", "failed", "rejected", "not_run", "outcome_unknown", "running"]),
        requested_at=st.just(NOW),
        output=st.none() | any_text,
        error=st.none() | any_text,
    ),
    max_size=3,
)


def require_valid(items: tuple[ModelInputItem, ...]) -> None:
    msgspec.json.encode(items)
    json.dumps(msgspec.to_builtins(items), ensure_ascii=False).encode()
    assert not items or isinstance(items[0], ModelUserTextItem)
    expected: list[tuple[str, str]] = []
    for item in items:
        match item:
            case ModelToolResultItem():
                assert (item.model_call_id, item.tool_name) == expected.pop(0)
                assert item.output.strip()
            case ModelUserTextItem():
                assert not expected
                assert item.text.strip()
            case ModelOutputItem():
                assert not expected
                assert item.text == "" or item.text.strip()
                assert item.text or item.tool_calls
                for call in item.tool_calls:
                    expected.append((call.model_call_id, call.tool_name))
                    assert call.model_call_id or call.tool_name
                    assert isinstance(json.loads(call.arguments, parse_constant=refuse), dict)
                    assert 1 <= len(call.tool_name) <= 64
                    assert call.tool_name.isascii()
                if item.item is not None:
                    json.dumps(json.loads(item.item), ensure_ascii=False).encode()
    assert not expected


def refuse(constant: str) -> None:
    raise AssertionError(constant)


@given(messages, records)
def test_every_request_is_valid_whatever_is_stored(
    stored: list[AgentMessage], recorded: list[AgentToolCall]
) -> None:
    items = build_input_items(stored, provider="acme", api="chat", recorded_calls=recorded)
    require_valid(items)
    assert items == build_input_items(stored, provider="acme", api="chat", recorded_calls=recorded)


visible_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
good_arguments = st.dictionaries(st.text(max_size=3), st.integers(), max_size=2).map(json.dumps)
rounds = st.lists(
    st.tuples(
        st.sampled_from(["user", "answer", "calls"]),
        visible_text,
        st.lists(st.tuples(good_arguments, visible_text), min_size=1, max_size=4),
        st.randoms(use_true_random=False),
    ),
    max_size=6,
)


@given(rounds)
def test_a_sound_transcript_goes_out_as_it_is(
    asked: list[tuple[str, str, list[tuple[str, str]], random.Random]],
) -> None:
    stored = [store("user", StoredUserText("begin"))]
    expected: list[ModelInputItem] = [ModelUserTextItem("begin")]
    for number, (kind, text, answered, shuffler) in enumerate(asked):
        if kind == "user":
            stored.append(store("user", StoredUserText(text)))
            expected.append(ModelUserTextItem(text))
            continue
        kept = answered if kind == "calls" else []
        stored_calls = tuple(
            StoredToolCall(f"{number}-{position}", "same", "look", arguments)
            for position, (arguments, _) in enumerate(kept)
        )
        native = msgspec.Raw(msgspec.json.encode({"native": text}))
        stored.append(store("assistant", StoredModelOutput("acme", "chat", native, text, stored_calls)))
        results = [
            store("tool", StoredToolResult(call.tool_call_id, "look", output))
            for call, (_, output) in zip(stored_calls, kept, strict=True)
        ]
        shuffler.shuffle(results)
        stored.extend(results)
        model_calls = tuple(ModelToolCall("same", "look", call.arguments) for call in stored_calls)
        expected.append(ModelOutputItem(text, model_calls, bytes(native).decode()))
        expected.extend(ModelToolResultItem("same", "look", output) for _, output in kept)
    assert build_input_items(stored, provider="acme", api="chat") == tuple(expected)


def store(role: MessageRole, item: StoredItem) -> FrameworkMessage:
    return FrameworkMessage(role=role, framework_item=encode_stored_item(item))
