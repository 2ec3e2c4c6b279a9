"""The crash suite's judge sees what it is there to see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from dex_agents import AgentMessage, AgentSnapshot, AgentToolCall, ToolEffect, empty_agent_usage
from dex_agents.builtin_loop import (
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.testing import Invocation
from dex_agents.wire.tool_calls import ToolCallStatus
from tests.crash.verdict import (
    find_invalid_requests,
    find_lost_messages,
    find_repeated_writes,
    find_unpaired_calls,
    find_untrue_records,
)

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _run(reference: str = "r", *, call: str = "c", tool_name: str = "send_refund") -> Invocation:
    return Invocation(tool_name, f"s/turn-1/{call}", {"reference": reference}, 1, 7)


def _call(status: ToolCallStatus, effect: ToolEffect = ToolEffect.NON_IDEMPOTENT_WRITE) -> AgentToolCall:
    succeeded = status == "succeeded"
    return AgentToolCall(
        tool_call_id="c",
        model_call_id="c",
        turn_id="turn-1",
        response_index=1,
        tool_name="send_refund",
        arguments='{"reference": "r"}',
        effect=effect,
        status=status,
        requested_at=_NOW,
        output='{"reference": "r"}' if succeeded else None,
        error=None if succeeded else "why",
    )


def _snapshot(*calls: AgentToolCall, messages: tuple[AgentMessage, ...] = ()) -> AgentSnapshot:
    return AgentSnapshot("s", "idle", 1, messages, calls, (), (), empty_agent_usage(), _NOW)


def _message(role: Any, **fields: Any) -> AgentMessage:
    return AgentMessage(1, "turn-1", role, "{}", _NOW, **fields)


def test_a_write_that_ran_twice_is_found_even_under_another_key() -> None:
    runs = [_run("r", call="c"), _run("r", call="c#2"), _run("other", call="d")]

    assert find_repeated_writes(runs, ["send_refund"]) == ["send_refund r ran 2 times"]
    assert find_repeated_writes(runs, ["look_up"]) == []


def test_a_message_that_is_missing_or_there_twice_is_found() -> None:
    snapshot = _snapshot(
        messages=tuple(_message("user", message_id=one) for one in ("once", "twice", "twice"))
    )

    assert find_lost_messages(snapshot, ["once", "twice", "never"]) == [
        "s: message twice is there 2 times",
        "s: message never is there 0 times",
    ]


@pytest.mark.parametrize(
    ("status", "effect", "allowed"),
    [
        ("succeeded", ToolEffect.NON_IDEMPOTENT_WRITE, {1}),
        ("outcome_unknown", ToolEffect.NON_IDEMPOTENT_WRITE, {0, 1}),
        ("not_run", ToolEffect.NON_IDEMPOTENT_WRITE, {0}),
        ("rejected", ToolEffect.UNCLASSIFIED, {0}),
        ("succeeded", ToolEffect.UNCLASSIFIED, {1}),
        ("succeeded", ToolEffect.IDEMPOTENT_WRITE, {1, 2, 3}),
        ("not_run", ToolEffect.IDEMPOTENT_WRITE, {0}),
        ("succeeded", ToolEffect.READ, {1, 2, 3}),
        ("outcome_unknown", ToolEffect.READ, set[int]()),
        ("running", ToolEffect.READ, set[int]()),
        ("waiting_for_approval", ToolEffect.NON_IDEMPOTENT_WRITE, set[int]()),
    ],
)
def test_a_record_is_true_only_with_so_many_runs(
    status: ToolCallStatus, effect: ToolEffect, allowed: set[int]
) -> None:
    snapshot = _snapshot(_call(status, effect))

    true_with = {runs for runs in range(5) if not find_untrue_records(snapshot, [_run()] * runs)}

    assert true_with == allowed


def test_runs_that_do_not_fit_their_record_are_found() -> None:
    snapshot = _snapshot(_call("succeeded"))

    assert find_untrue_records(snapshot, [_run("another")])
    assert find_untrue_records(snapshot, [_run(tool_name="send_notice")])
    assert find_untrue_records(snapshot, [_run(), _run(call="unknown")]) == [
        "s/turn-1/unknown: ran, and has no record"
    ]
    lost_output = msgspec.structs.replace(_call("succeeded"), output=None)
    assert find_untrue_records(_snapshot(lost_output), [_run()])


def test_runs_of_another_session_are_nobody_s_business() -> None:
    stranger = Invocation("send_refund", "s2/turn-1/c", {"reference": "r2"}, 1, 7)

    assert find_untrue_records(_snapshot(_call("succeeded")), [_run(), stranger]) == []


def test_a_call_without_exactly_one_result_is_found() -> None:
    result = _message("tool", tool_call_id="c", tool_output="x")

    assert find_unpaired_calls(_snapshot(_call("succeeded"), messages=(result,))) == []
    assert find_unpaired_calls(_snapshot(_call("succeeded"))) == ["s: c has 0 results"]
    assert find_unpaired_calls(_snapshot(_call("succeeded"), messages=(result, result))) == [
        "s: c has 2 results"
    ]


_ASK = ModelUserTextItem("please")
_TWO_CALLS = ModelOutputItem(
    text="", tool_calls=(ModelToolCall("a", "t", "{}"), ModelToolCall("b", "t", "{}"))
)
_A, _B = ModelToolResultItem("a", "t", "1"), ModelToolResultItem("b", "t", "2")


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ((_ASK, _TWO_CALLS, _A, _B, _ASK), None),
        ((), "does not begin with user text"),
        ((_TWO_CALLS, _A, _B), "does not begin with user text"),
        ((_ASK, _TWO_CALLS, _A), "the result of b is missing"),
        ((_ASK, _TWO_CALLS, _A, _ASK, _B), "the result of b is missing"),
        ((_ASK, _TWO_CALLS, _B, _A), "the result of b is out of place"),
        ((_ASK, _TWO_CALLS, _A, _B, _B), "the result of b is out of place"),
        ((_ASK, ModelToolResultItem("a", "t", "1")), "the result of a is out of place"),
        ((_ASK, _TWO_CALLS, _A, ModelToolResultItem("b", "t", " ")), "the result of b is blank"),
        ((_ASK, ModelOutputItem(text=" ")), "an answer is blank"),
        ((ModelUserTextItem(" "),), "a user text is blank"),
        (
            (_ASK, ModelOutputItem(text="", tool_calls=(ModelToolCall("a", "t", "[]"),)), _A),
            "the arguments of a are no JSON object",
        ),
    ],
)
def test_what_a_provider_would_refuse_is_found(
    items: tuple[ModelInputItem, ...], problem: str | None
) -> None:
    found = find_invalid_requests([ModelRequest("", items)])

    assert found == [] if problem is None else f"request 1: {problem}" in found
