"""Tool calls: how a record moves to what is known about the call; `tool_call_moves` is the table."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, assert_never

from dex_agents import texts
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.limits import MAX_TASK_POLL_FAILURES, MAX_TOOL_OUTPUT_BYTES
from dex_agents.runner.outcomes import ToolReconciliation
from dex_agents.session.transitions.tool_call_moves import ToolCallMove, move_tool_call
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.tool_calls import AgentToolCall, ToolSettlement

__all__ = [
    "cancel_tool_call",
    "exhausted_tool_call",
    "fail_tool_call",
    "finish_tool_call",
    "give_up_task",
    "lose_tool_call",
    "miss_poll",
    "reconcile_tool_call",
    "release_tool_call",
    "settle_tool_call",
    "skip_tool_call",
    "stop_waiting",
    "succeed_tool_call",
]


def release_tool_call(call: AgentToolCall) -> AgentToolCall:
    """Return the record of a call whose tool Step is being scheduled."""
    return move_tool_call(call, "release")


def succeed_tool_call(
    call: AgentToolCall,
    output: str,
    *,
    attempt: int,
    started_at: datetime | None,
    now: datetime,
    images: tuple[AgentImageReference, ...] = (),
) -> AgentToolCall:
    """Record what a tool returned; a very long output is cut and says so."""
    return finish_tool_call(
        call,
        "succeed",
        now,
        output=_cut_output(output),
        images=images,
        attempts=attempt,
        started_at=started_at,
    )


def fail_tool_call(
    call: AgentToolCall, reason: str, now: datetime, *, attempt: int = 0, started_at: datetime | None = None
) -> AgentToolCall:
    """Record a known failure."""
    return finish_tool_call(call, "fail", now, error=reason, attempts=attempt, started_at=started_at)


def lose_tool_call(
    call: AgentToolCall, reason: str, now: datetime, *, attempt: int = 1, started_at: datetime | None = None
) -> AgentToolCall:
    """Record that a call may or may not have taken effect."""
    return finish_tool_call(call, "lose", now, error=reason, attempts=attempt, started_at=started_at)


def exhausted_tool_call(call: AgentToolCall, reason: str, attempts: int, now: datetime) -> AgentToolCall:
    """Record a call whose tool Step failed for good: known for what may run again, unknown for the rest."""
    if call.effect.may_run_again:
        return fail_tool_call(call, reason, now, attempt=attempts)
    return lose_tool_call(call, reason, now, attempt=attempts)


def skip_tool_call(call: AgentToolCall, failed_write_id: str, now: datetime) -> AgentToolCall:
    """Record an ordered write that did not run because an earlier one did not succeed."""
    text = texts.tool_call_not_run_after_failed_write(failed_write_id)
    return finish_tool_call(call, "skip", now, error=text)


def stop_waiting(
    call: AgentToolCall, reason: str, move: Literal["steer", "cancel"], now: datetime
) -> AgentToolCall:
    """Record a call whose question nobody will answer any more.

    A tool asks before it changes anything, so its first question leaves nothing behind; what it did between
    two questions, or in a task, is not known.
    """
    may_have_changed = call.task_reference is not None or call.input_rounds > 1
    if may_have_changed and call.effect.is_write:
        return lose_tool_call(call, reason, now)
    return finish_tool_call(call, move, now, error=reason)


def cancel_tool_call(call: AgentToolCall, now: datetime, *, was_started: bool = True) -> AgentToolCall:
    """Record a call that a cancelled turn leaves behind.

    What was never sent did not run. A write that was running, here or as a task, may have taken effect.

    Args:
        call: The record as committed.
        now: The time of the commit.
        was_started: For a `running` call: whether an attempt of its tool Step may have begun.
    """
    if call.is_final:
        return call
    if call.status == "waiting_for_answer":
        return stop_waiting(call, texts.tool_call_cancelled(), "cancel", now)
    was_entered = call.status == "polling" or (
        call.status == "running" and (was_started or call.input_rounds > 1)
    )
    if not was_entered:
        return finish_tool_call(call, "cancel", now, error=texts.tool_call_cancelled())
    if call.effect.is_write:
        return lose_tool_call(call, "the turn was cancelled while the call was running", now)
    return finish_tool_call(call, "stop", now, error=texts.tool_call_stopped())


def miss_poll(call: AgentToolCall) -> AgentToolCall | None:
    """Count a poll that did not reach the server; `None` when that was the last one to be borne."""
    failures = call.poll_failures + 1
    if failures >= MAX_TASK_POLL_FAILURES:
        return None
    return move_tool_call(call, "poll_again", poll_failures=failures)


def give_up_task(call: AgentToolCall, reason: str, now: datetime) -> AgentToolCall:
    """Record a task that cannot be polled any more: a failure if it changed nothing, unknown otherwise."""
    if call.effect.is_write:
        return lose_tool_call(call, reason, now, attempt=call.attempts)
    return fail_tool_call(call, reason, now, attempt=call.attempts)


def reconcile_tool_call(
    call: AgentToolCall, found: ToolReconciliation, unknown_because: str, now: datetime
) -> AgentToolCall:
    """Record what the tool's own look-up found."""
    settlement = ToolSettlement(now, "reconcile", replace_lone_surrogates(unknown_because))
    attempts = max(call.attempts, 1)
    match found.outcome:
        case "succeeded":
            output = _cut_output(found.text)
            return finish_tool_call(
                call, "succeed", now, output=output, attempts=attempts, settlement=settlement
            )
        case "failed":
            return finish_tool_call(
                call, "fail", now, error=found.text, attempts=attempts, settlement=settlement
            )
        case "still_unknown":
            return lose_tool_call(call, unknown_because, now, attempt=attempts)
        case _:
            assert_never(found.outcome)


def settle_tool_call(
    call: AgentToolCall,
    outcome: Literal["succeeded", "failed"],
    output: str,
    now: datetime,
    *,
    person: str | None,
) -> AgentToolCall:
    """Record what a person found out about a call whose outcome was unknown."""
    settlement = ToolSettlement(now, "person", call.error or "", person)
    if outcome == "succeeded":
        return move_tool_call(
            call, "settle_succeeded", output=_cut_output(output), error=None, settlement=settlement
        )
    return move_tool_call(call, "settle_failed", error=replace_lone_surrogates(output), settlement=settlement)


def finish_tool_call(
    call: AgentToolCall,
    move: ToolCallMove,
    now: datetime,
    *,
    output: str | None = None,
    error: str | None = None,
    attempts: int = 0,
    started_at: datetime | None = None,
    **changes: Any,
) -> AgentToolCall:
    """Return the final record that a move leads to.

    Args:
        call: The record as committed.
        move: What happened.
        now: The time of the commit.
        output: What the call returned.
        error: Why it returned nothing.
        attempts: The attempt that ended it.
        started_at: When that attempt began.
        changes: Other fields as they become.
    """
    return move_tool_call(
        call,
        move,
        output=output,
        error=None if error is None else replace_lone_surrogates(error),
        attempts=max(attempts, call.attempts),
        started_at=started_at,
        finished_at=now,
        **changes,
    )


def _cut_output(output: str) -> str:
    healed = replace_lone_surrogates(output)
    kept = cut_to_bytes(healed, MAX_TOOL_OUTPUT_BYTES)
    if kept is healed:
        return healed
    return kept + texts.output_cut_note(len(kept.encode()), len(healed.encode()))
