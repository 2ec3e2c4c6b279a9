"""How a session ends: what is still queued is kept in the transcript, and says that nobody answered it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from dex_agents.session.state import SessionChange, WaitForUser
from dex_agents.session.transitions.messages import number_messages
from dex_agents.session.transitions.turn_moves import SESSION_STATUSES, find_turn_phase, move_turn
from dex_agents.wire.events import SessionClosed, ToolCallCompleted, UserMessageEvent
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, QueuedMessage
from dex_agents.wire.sessions import SessionRecord, SessionSummary
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["close_session", "summarize_session"]


def close_session(
    record: SessionRecord,
    unanswered: Sequence[tuple[QueuedMessage, FrameworkMessage]],
    note: FrameworkMessage,
    now: datetime,
    *,
    settled: Sequence[AgentToolCall] = (),
) -> SessionChange:
    """End the session; messages that were accepted and never taken are stored with a note.

    Args:
        record: The session, without a running turn.
        unanswered: What is still queued, oldest first, and each as the runner spells it.
        note: `texts.SESSION_CLOSED_NOTE` as the runner spells it.
        now: The time of the commit.
        settled: Records that were settled since the last model call, of which viewers were not told.
    """
    phase = move_turn(find_turn_phase(record), "close")
    stored: list[AgentMessage] = []
    turn_id = f"turn-{record.turn_count}"
    for queued, message in unanswered:
        stored += number_messages(
            [message],
            next_sequence=record.next_sequence + len(stored),
            turn_id=turn_id,
            now=now,
            message_id=queued.message_id,
        )
    if stored:
        stored += number_messages(
            [msgspec.structs.replace(note, role="note")],
            next_sequence=record.next_sequence + len(stored),
            turn_id=turn_id,
            now=now,
        )
    return SessionChange(
        record=msgspec.structs.replace(record, next_sequence=record.next_sequence + len(stored)),
        status=SESSION_STATUSES[phase],
        next_step=WaitForUser(),
        new_messages=tuple(stored),
        events=(
            *(ToolCallCompleted(tool_call=call) for call in settled),
            *(
                UserMessageEvent(message_id=queued.message_id, text=queued.text, images=queued.images)
                for queued, _ in unanswered
            ),
            SessionClosed(),
        ),
    )


def summarize_session(record: SessionRecord) -> SessionSummary:
    """Return the value that the session's Flow completes with."""
    return SessionSummary(
        turn_count=record.turn_count, message_count=record.next_sequence - 1, usage=record.usage
    )
