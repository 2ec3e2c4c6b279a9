"""Tool calls: from what a model asked for to final records, one move at a time.

::

    requested ──refused──────────────────────────────► failed
        │  └───not to run────────────────────────────► not_run
        ├─asks first─► waiting_for_approval ─reject──► rejected
        │                   │ approve      └skipped──► not_run
        ├─ordered──► pending ◄┘ (an ordered write)
        │               │ earlier write ok └failed───► not_run
        └────────────► running ──────────────────────► succeeded | failed | outcome_unknown
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal, assert_never

import msgspec

from dex_agents import texts
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.limits import MAX_TOOL_OUTPUT_BYTES
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.session.state import ToolStart
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "ApprovalOutcome",
    "PlannedToolCalls",
    "apply_approval",
    "approval_interrupt_id",
    "build_approval_interrupt",
    "cancel_tool_call",
    "exhausted_tool_call",
    "fail_tool_call",
    "interrupt_tool_call_id",
    "lose_tool_call",
    "plan_tool_calls",
    "release_tool_call",
    "skip_tool_call",
    "succeed_tool_call",
]


@dataclass(frozen=True)
class PlannedToolCalls:
    """What becomes of the calls of one response.

    Attributes:
        records: One for each call, in the model's order.
        starts: How those that can run begin.
        interrupts: The questions that are asked at once.
    """

    records: tuple[AgentToolCall, ...]
    starts: tuple[ToolStart, ...]
    interrupts: tuple[AgentInterrupt, ...]


def plan_tool_calls(
    calls: Sequence[DeferredToolCall],
    *,
    turn_id: str,
    response_index: int,
    used_tool_call_ids: frozenset[str],
    now: datetime,
) -> PlannedToolCalls:
    """Turn what the model asked for into records, questions and starts.

    All calls begin at once. The exception are ordered writes: each waits for the one before it, and after one
    that cannot run the rest do not run either.

    Raises:
        RunnerContractError: No call, or an ID that the session has used.
    """
    if not calls:
        raise RunnerContractError("tool_calls is empty")
    seen = set(used_tool_call_ids)
    records: list[AgentToolCall] = []
    runnable: list[tuple[AgentToolCall, bool]] = []
    failed_write: str | None = None
    for position, call in enumerate(calls):
        if call.tool_call_id in seen or not call.tool_call_id:
            raise RunnerContractError(f"tool_calls: the ID {call.tool_call_id!r} is empty or used before")
        seen.add(call.tool_call_id)
        record = _intend(call, turn_id, response_index, position, now)
        if call.ordered and failed_write is not None and not record.is_final:
            record = skip_tool_call(record, failed_write, now)
        if call.ordered and record.is_final and failed_write is None:
            failed_write = record.tool_call_id
        records.append(record)
        if not record.is_final:
            runnable.append((record, call.policy.requires_approval))
    starts = _chain(runnable)
    by_id = {start.tool_call.tool_call_id: start.tool_call for start in starts}
    return PlannedToolCalls(
        records=tuple(by_id.get(record.tool_call_id, record) for record in records),
        starts=starts,
        interrupts=tuple(
            build_approval_interrupt(start.tool_call, now)
            for start in starts
            if start.begins_with == "approval"
        ),
    )


def _intend(
    call: DeferredToolCall, turn_id: str, response_index: int, position: int, now: datetime
) -> AgentToolCall:
    record = AgentToolCall(
        tool_call_id=call.tool_call_id,
        model_call_id=replace_lone_surrogates(call.model_call_id),
        turn_id=turn_id,
        response_index=response_index,
        tool_name=replace_lone_surrogates(call.tool_name),
        arguments=replace_lone_surrogates(call.arguments),
        effect=call.policy.effect,
        status="pending",
        requested_at=now,
        effective_arguments=call.effective_arguments,
        position=position,
        ordered=call.ordered,
        tool_source_reference=call.tool_source_reference,
    )
    if call.refusal is not None:
        return fail_tool_call(record, call.refusal, now)
    if call.not_run_reason is not None:
        return _finish(record, "not_run", now, error=call.not_run_reason)
    return record


def _chain(runnable: Sequence[tuple[AgentToolCall, bool]]) -> tuple[ToolStart, ...]:
    writes = [record.tool_call_id for record, _ in runnable if record.ordered]
    following = dict(pairwise(writes))
    starts: list[ToolStart] = []
    for record, requires_approval in runnable:
        follows_write = record.ordered and record.tool_call_id != writes[0]
        begins_with: Literal["approval", "earlier_write", "call"]
        if requires_approval:
            begins_with, status = "approval", "waiting_for_approval"
        elif follows_write:
            begins_with, status = "earlier_write", "pending"
        else:
            begins_with, status = "call", "running"
        starts.append(
            ToolStart(
                tool_call=msgspec.structs.replace(record, status=status),
                begins_with=begins_with,
                next_write_id=following.get(record.tool_call_id),
                follows_write=follows_write,
            )
        )
    return tuple(starts)


def approval_interrupt_id(tool_call_id: str) -> str:
    """Return the ID of the question whether a call may run."""
    return f"approval:{tool_call_id}"


def interrupt_tool_call_id(interrupt_id: str) -> str:
    """Return the call that a question is about; an ID of another form names no call of a session."""
    return interrupt_id.partition(":")[2] or interrupt_id


def build_approval_interrupt(call: AgentToolCall, now: datetime) -> AgentInterrupt:
    """Return the question whether a call may run, with what would run."""
    return AgentInterrupt(
        interrupt_id=approval_interrupt_id(call.tool_call_id),
        kind="approval",
        turn_id=call.turn_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        effect=call.effect,
        arguments=call.arguments,
        opened_at=now,
        effective_arguments=call.effective_arguments,
    )


@dataclass(frozen=True)
class ApprovalOutcome:
    """What an answered or fallen question leads to.

    Attributes:
        tool_call: The record as it becomes.
        then: `run` it, `wait` for the earlier write, or nothing because it is `final`.
    """

    tool_call: AgentToolCall
    then: Literal["run", "wait", "final"]


def apply_approval(
    call: AgentToolCall, decision: ToolDecision, *, follows_write: bool, now: datetime
) -> ApprovalOutcome:
    """Apply what ended the wait for an approval."""
    approval = decision.approval
    if approval is None:
        return ApprovalOutcome(skip_tool_call(call, decision.failed_write_id or "", now), "final")
    decided = msgspec.structs.replace(call, approval=approval)
    match approval.decision:
        case "reject":
            text = texts.tool_call_rejected(approval.reason)
            return ApprovalOutcome(_finish(decided, "rejected", now, error=text), "final")
        case "approve":
            if decision.effective_arguments is not None:
                decided = msgspec.structs.replace(decided, effective_arguments=decision.effective_arguments)
            if follows_write:
                return ApprovalOutcome(msgspec.structs.replace(decided, status="pending"), "wait")
            return ApprovalOutcome(release_tool_call(decided), "run")
        case _:
            assert_never(approval.decision)


def release_tool_call(call: AgentToolCall) -> AgentToolCall:
    """Return the record of a call whose tool Step is being scheduled."""
    return msgspec.structs.replace(call, status="running")


def succeed_tool_call(
    call: AgentToolCall, output: str, *, attempt: int, started_at: datetime, now: datetime
) -> AgentToolCall:
    """Record what a tool returned; a very long output is cut and says so."""
    healed = replace_lone_surrogates(output)
    kept = cut_to_bytes(healed, MAX_TOOL_OUTPUT_BYTES)
    if kept is not healed:
        kept += texts.output_cut_note(len(kept.encode()), len(healed.encode()))
    return _finish(call, "succeeded", now, output=kept, attempts=attempt, started_at=started_at)


def fail_tool_call(
    call: AgentToolCall, reason: str, now: datetime, *, attempt: int = 0, started_at: datetime | None = None
) -> AgentToolCall:
    """Record a known failure."""
    return _finish(call, "failed", now, error=reason, attempts=attempt, started_at=started_at)


def lose_tool_call(
    call: AgentToolCall, reason: str, now: datetime, *, attempt: int = 1, started_at: datetime | None = None
) -> AgentToolCall:
    """Record that a call may or may not have taken effect."""
    return _finish(call, "outcome_unknown", now, error=reason, attempts=attempt, started_at=started_at)


def exhausted_tool_call(call: AgentToolCall, reason: str, attempts: int, now: datetime) -> AgentToolCall:
    """Record a call whose tool Step failed for good: known for what may run again, unknown for the rest."""
    if call.effect.may_run_again:
        return fail_tool_call(call, reason, now, attempt=attempts)
    return lose_tool_call(call, reason, now, attempt=attempts)


def skip_tool_call(call: AgentToolCall, failed_write_id: str, now: datetime) -> AgentToolCall:
    """Record an ordered write that did not run because an earlier one did not succeed."""
    return _finish(call, "not_run", now, error=texts.tool_call_not_run_after_failed_write(failed_write_id))


def cancel_tool_call(call: AgentToolCall, now: datetime, *, was_started: bool = True) -> AgentToolCall:
    """Record a call that a cancelled turn leaves behind.

    What was never sent did not run. A write that was running may have taken effect.

    Args:
        call: The record as committed.
        now: The time of the commit.
        was_started: For a `running` call: whether an attempt of its tool Step may have begun.
    """
    if call.is_final:
        return call
    if call.status == "running" and was_started and call.effect.is_write:
        return lose_tool_call(call, "the turn was cancelled while the call was running", now)
    was_entered = call.status == "running" and was_started
    text = texts.tool_call_stopped() if was_entered else texts.tool_call_cancelled()
    return _finish(call, "not_run", now, error=text)


def _finish(
    call: AgentToolCall,
    status: Literal["succeeded", "failed", "rejected", "not_run", "outcome_unknown"],
    now: datetime,
    *,
    output: str | None = None,
    error: str | None = None,
    attempts: int = 0,
    started_at: datetime | None = None,
) -> AgentToolCall:
    return msgspec.structs.replace(
        call,
        status=status,
        output=output,
        error=None if error is None else replace_lone_surrogates(error),
        attempts=max(attempts, call.attempts),
        started_at=started_at,
        finished_at=now,
    )
