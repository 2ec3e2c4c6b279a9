"""The *commit* half of a Step: what a transition decided becomes Attribute writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from dex import Context

from dex_agents.session.persistence import (
    CONTEXT_SUMMARY,
    INTERRUPTS,
    LATEST_SUMMARY,
    MESSAGES,
    MILESTONE,
    PLAN,
    RECORD,
    STATUS,
    TOOL_CALLS,
    chunk_instance,
    get_stored,
    map_instance,
)
from dex_agents.session.state import SessionChange
from dex_agents.session.steps.inbox import Inbox
from dex_agents.session.transitions.messages import ChunkPlan, plan_chunks, plan_joined_chunks
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import AgentMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "close_interrupts",
    "commit_change",
    "open_interrupt",
    "raise_milestone",
    "write_tool_calls",
]


_EMPTY_INBOX: Final = Inbox()


def commit_change(
    context: Context,
    change: SessionChange,
    *,
    loaded_messages: Sequence[AgentMessage] | None = None,
    inbox: Inbox = _EMPTY_INBOX,
) -> SessionRecord:
    """Write a change; it becomes durable with the Step's result, whole or not at all.

    Args:
        context: The Step attempt.
        change: What to write.
        loaded_messages: The messages that the model reads, when the Step has them: then small chunks may be
            joined.
        inbox: What is left in the inbox; needed where a turn ends.

    Returns:
        The session's record as it is written; what follows is built from it.
    """
    record = change.record
    if change.new_messages:
        if loaded_messages is None:
            plan = plan_chunks(record.open_chunks, change.new_messages)
        else:
            plan = plan_joined_chunks(record.open_chunks, loaded_messages, change.new_messages)
        _write_chunks(context, plan)
        record = msgspec.structs.replace(
            record, open_chunks=plan.open_chunks, chunks=plan.update_chunks(record.chunks)
        )
    if change.context_summary is not None:
        CONTEXT_SUMMARY.set(context, LATEST_SUMMARY, change.context_summary)
    if change.ends_turn or any(one.waits_on_person for one in change.opened_interrupts):
        raise_milestone(context)
    if change.plan is not None:
        PLAN.set(context, change.plan)
    if change.ends_turn:
        inbox.end_turn(context)
    RECORD.set(context, record)
    # With a message in the inbox the next turn is certain: a session that is never idle is never called so.
    queued = change.ends_turn and len(inbox.waits_for_turn) > 0
    STATUS.set(context, "running" if queued else change.status)
    write_tool_calls(context, change.tool_calls)
    for interrupt in change.opened_interrupts:
        INTERRUPTS.set(context, map_instance(interrupt.interrupt_id), interrupt)
    close_interrupts(context, change.closed_interrupts)
    return record


def raise_milestone(context: Context) -> None:
    """Let those who wait for a turn's end or for a question look again.

    Two Steps may do so at once, so the value is a time: it grows whoever comes first.
    """
    now = int(time.time() * 1_000_000)
    MILESTONE.set(context, max(now, (get_stored(MILESTONE, context) or 0) + 1))


def open_interrupt(context: Context, interrupt: AgentInterrupt) -> None:
    """Write one interrupt, from a Step that does not hold the turn."""
    INTERRUPTS.set(context, map_instance(interrupt.interrupt_id), interrupt)
    if interrupt.waits_on_person:
        raise_milestone(context)


def write_tool_calls(context: Context, calls: Iterable[AgentToolCall]) -> None:
    """Write tool call records."""
    for call in calls:
        TOOL_CALLS.set(context, map_instance(call.tool_call_id), call)


def close_interrupts(context: Context, interrupt_ids: Iterable[str]) -> None:
    """Remove interrupts that ended."""
    for closed in interrupt_ids:
        INTERRUPTS.delete(context, map_instance(closed))


def _write_chunks(context: Context, plan: ChunkPlan) -> None:
    for key in plan.deletes:
        MESSAGES.delete(context, chunk_instance(key))
    for chunk in plan.writes:
        MESSAGES.set(context, chunk_instance(chunk.messages[0].sequence), chunk)
