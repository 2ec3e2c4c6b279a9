"""Tool call moves, without a session."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dex_agents import texts
from dex_agents.errors import RunnerContractError
from dex_agents.limits import MAX_TOOL_OUTPUT_BYTES
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.session.state import SessionRules
from dex_agents.session.transitions.call_planning import PlannedToolCalls, plan_tool_calls
from dex_agents.session.transitions.interrupts import end_approval
from dex_agents.session.transitions.tool_calls import (
    cancel_tool_call,
    exhausted_tool_call,
    succeed_tool_call,
)
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.tool_calls import AgentToolCall, ResolvedToolPolicy, ToolApproval, ToolEffect

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _asked(
    tool_call_id: str,
    effect: ToolEffect = ToolEffect.READ,
    *,
    approval: bool = False,
    ordered: bool = False,
    refusal: str | None = None,
) -> DeferredToolCall:
    return DeferredToolCall(
        tool_call_id=tool_call_id,
        model_call_id=tool_call_id,
        tool_name="tool",
        arguments="{}",
        policy=ResolvedToolPolicy(effect, approval),
        ordered=ordered,
        refusal=refusal,
    )


def _plan(*calls: DeferredToolCall, used: frozenset[str] = frozenset()) -> PlannedToolCalls:
    return plan_tool_calls(
        calls, turn_id="turn-1", response_index=1, used_tool_call_ids=used, now=NOW, rules=SessionRules()
    )


def _write(tool_call_id: str, *, approval: bool = False, refusal: str | None = None) -> DeferredToolCall:
    return _asked(tool_call_id, ToolEffect.IDEMPOTENT_WRITE, approval=approval, ordered=True, refusal=refusal)


def test_calls_begin_at_once_and_ask_at_once() -> None:
    planned = _plan(_asked("a"), _asked("b", approval=True), _asked("c", approval=True))
    assert [(start.begins_with, start.tool_call.status) for start in planned.starts] == [
        ("call", "running"),
        ("approval", "waiting_for_approval"),
        ("approval", "waiting_for_approval"),
    ]
    assert [one.interrupt_id for one in planned.interrupts] == ["approval:b", "approval:c"]
    assert [record.position for record in planned.records] == [0, 1, 2]


def test_ordered_writes_are_chained_and_other_calls_are_not() -> None:
    planned = _plan(_write("a"), _asked("read"), _write("b", approval=True), _write("c"))
    chain = [
        (start.tool_call.tool_call_id, start.begins_with, start.follows_write, start.next_write_id)
        for start in planned.starts
    ]
    assert chain == [
        ("a", "call", False, "b"),
        ("read", "call", False, None),
        ("b", "approval", True, "c"),
        ("c", "earlier_write", True, None),
    ]


def test_an_ordered_write_that_is_refused_keeps_the_later_ones_from_running() -> None:
    planned = _plan(_write("a"), _write("b", refusal="no such tool"), _write("c"), _asked("read"))
    assert [record.status for record in planned.records] == ["running", "failed", "not_run", "running"]
    assert planned.records[2].error == texts.tool_call_not_run_after_failed_write("b")
    assert [start.next_write_id for start in planned.starts] == [None, None]


@pytest.mark.parametrize(
    ("calls", "used"),
    [
        ((), frozenset[str]()),
        ((_asked("a"), _asked("a")), frozenset[str]()),
        ((_asked("a"),), frozenset({"a"})),
        ((_asked(""),), frozenset[str]()),
    ],
)
def test_calls_that_can_not_be_told_apart_are_refused(
    calls: tuple[DeferredToolCall, ...], used: frozenset[str]
) -> None:
    with pytest.raises(RunnerContractError):
        _plan(*calls, used=used)


@pytest.mark.parametrize(
    ("decision", "follows_write", "status", "then"),
    [
        (ToolDecision(ToolApproval("approve", NOW)), False, "running", "run"),
        (ToolDecision(ToolApproval("approve", NOW)), True, "pending", "wait"),
        (ToolDecision(ToolApproval("reject", NOW)), True, "rejected", "final"),
        (ToolDecision(failed_write_id="w"), True, "not_run", "final"),
        (ToolDecision(steered=True), False, "not_run", "final"),
        (None, False, "rejected", "final"),
    ],
)
def test_every_end_of_a_question_leads_to_its_own_status(
    decision: ToolDecision | None, follows_write: bool, status: str, then: str
) -> None:
    (record,) = _plan(_asked("a", ToolEffect.NON_IDEMPOTENT_WRITE, approval=True)).records
    outcome = end_approval(record, decision, follows_write=follows_write, now=NOW)
    assert (outcome.tool_call.status, outcome.then) == (status, then)


@pytest.mark.parametrize("effect", list(ToolEffect))
def test_only_what_may_run_again_can_be_known_to_have_failed(effect: ToolEffect) -> None:
    (record,) = _plan(_asked("a", effect)).records
    final = exhausted_tool_call(record, "lost", 1, NOW)
    assert final.status == ("failed" if effect.may_run_again else "outcome_unknown")


def _with_status(effect: ToolEffect, *, approval: bool) -> AgentToolCall:
    return _plan(_asked("a", effect, approval=approval)).records[0]


@pytest.mark.parametrize("effect", list(ToolEffect))
def test_cancelling_never_claims_that_a_running_write_did_not_happen(effect: ToolEffect) -> None:
    running = cancel_tool_call(_with_status(effect, approval=False), NOW)
    waiting = cancel_tool_call(_with_status(effect, approval=True), NOW)
    assert running.status == ("not_run" if effect is ToolEffect.READ else "outcome_unknown")
    assert waiting.status == "not_run"
    assert cancel_tool_call(running, NOW) is running


def test_a_long_output_is_cut_in_whole_characters() -> None:
    (record,) = _plan(_asked("a")).records
    final = succeed_tool_call(record, "é" * MAX_TOOL_OUTPUT_BYTES, attempt=1, started_at=NOW, now=NOW)
    kept, _, note = (final.output or "").partition("\n")
    assert len(kept.encode()) == MAX_TOOL_OUTPUT_BYTES
    assert set(kept) == {"é"}
    assert "1048576 of 2097152 bytes" in note
