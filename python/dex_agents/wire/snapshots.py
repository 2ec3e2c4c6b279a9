"""The whole session as a reader sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dex_agents.wire.context import ContextSummary
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import AgentMessage, QueuedMessage
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.sessions import SessionStatus, TurnOutcome
from dex_agents.wire.tool_calls import AgentToolCall
from dex_agents.wire.usage import AgentUsage

__all__ = ["AgentSnapshot", "SessionProgress"]


class AgentSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One consistent view of a session, readable while it runs and after it closed.

    Attributes:
        session_id: The session.
        status: `idle`, `running` or `closed`.
        turn_count: Turns begun so far.
        messages: Every stored message in sequence order, those that a summary covers included.
        tool_calls: Every tool call record in the order in which the calls were asked.
        interrupts: What the session waits on, oldest first.
        queued_messages: Messages accepted and not yet taken by a turn, in the order in which turns will take
            them.
        usage: The sum over all model calls.
        started_at: When the session began.
        turn_id: The running turn, or `None`.
        last_turn_outcome: How the latest finished turn ended.
        last_turn_error: Why, when it failed.
        event_cursor: A position in the event stream before everything that this snapshot does not hold yet,
            `None` for the oldest event that is kept; `AgentSessionClient.events` with `since` begins there.
        context_summary: What the model reads in place of the messages that it covers, or `None`.
        dropped_messages: Messages that retention deleted: the ones before the first that is stored. Their
            tool call records are gone too.
        plan: The latest plan, or `None`.
        session_settings: The settings as they are now.
        response_index: Model responses of the running turn that are stored; 0 when no turn runs.
        settings_revision: The session settings that the latest model call used, as `settings_updated` counts.
    """

    session_id: str
    status: SessionStatus
    turn_count: int
    messages: tuple[AgentMessage, ...]
    tool_calls: tuple[AgentToolCall, ...]
    interrupts: tuple[AgentInterrupt, ...]
    queued_messages: tuple[QueuedMessage, ...]
    usage: AgentUsage
    started_at: datetime
    turn_id: str | None = None
    last_turn_outcome: TurnOutcome | None = None
    last_turn_error: str | None = None
    event_cursor: str | None = None
    context_summary: ContextSummary | None = None
    dropped_messages: int = 0
    plan: AgentPlan | None = None
    session_settings: dict[str, Any] = {}
    response_index: int = 0
    settings_revision: int = 0


class SessionProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a session stands, without its messages: its cost does not grow with the session.

    Attributes:
        status: `idle`, `running` or `closed`.
        turn_count: Turns begun so far.
        milestone: Grows whenever a turn ends or a person is asked; -1 until the session has begun.
        queued_message_count: Messages accepted and not yet taken by a turn.
        interrupts: What the session waits on, oldest first.
        turn_id: The running turn, or `None`.
        last_turn_outcome: How the latest finished turn ended.
        last_turn_error: Why, when it failed.
    """

    status: SessionStatus
    turn_count: int
    milestone: int
    queued_message_count: int = 0
    interrupts: tuple[AgentInterrupt, ...] = ()
    turn_id: str | None = None
    last_turn_outcome: TurnOutcome | None = None
    last_turn_error: str | None = None

    @property
    def waits_on_person(self) -> bool:
        """Whether somebody has to decide or to answer before the session goes on."""
        return any(interrupt.waits_on_person for interrupt in self.interrupts)
