"""The small record that every Step of a session reads."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from dex_agents.wire.usage import AgentUsage

__all__ = ["AgentTurnState", "SessionRecord", "SessionStatus", "SessionSummary", "TurnOutcome"]

SessionStatus = Literal["idle", "running", "closed"]

TurnOutcome = Literal["completed", "failed", "cancelled"]


class AgentTurnState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turn that is running.

    Attributes:
        number: From 1; the turn ID is `turn-<number>`.
        started_at: When the turn took its message.
        first_sequence: The sequence number of the turn's user message.
        response_index: Model responses stored so far in this turn.
        framework_run_state: What the runner left for its next model call; `None` before the first.
        tool_call_ids: This turn's calls in the order in which they were asked.
        waiting_call_ids: The calls of the latest response.
        plan_mode: Whether the turn writes a plan and runs nothing.
    """

    number: int
    started_at: datetime
    first_sequence: int
    response_index: int = 0
    framework_run_state: str | None = None
    tool_call_ids: tuple[str, ...] = ()
    waiting_call_ids: tuple[str, ...] = ()
    plan_mode: bool = False

    @property
    def turn_id(self) -> str:
        """The public name of the turn."""
        return f"turn-{self.number}"


class SessionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session is, apart from its messages and tool calls: small, because every Step loads it.

    Attributes:
        started_at: When the session began.
        turn_count: Turns begun so far.
        next_sequence: The sequence number of the next message.
        turn: The running turn, or `None`.
        usage: The sum over all model calls of the session.
        last_turn_outcome: How the latest finished turn ended.
        last_turn_error: Why, when it failed.
        settings_revision: The session settings that the latest model call used.
        open_chunks: First sequence numbers of the message chunks that were not joined yet, oldest first.
    """

    started_at: datetime
    turn_count: int = 0
    next_sequence: int = 1
    turn: AgentTurnState | None = None
    usage: AgentUsage = AgentUsage()
    last_turn_outcome: TurnOutcome | None = None
    last_turn_error: str | None = None
    settings_revision: int = 0
    open_chunks: tuple[int, ...] = ()


class SessionSummary(msgspec.Struct, frozen=True):
    """The value that a closed session's Flow completes with.

    Attributes:
        turn_count: Turns begun.
        message_count: Messages stored.
        usage: The sum over all model calls.
    """

    turn_count: int
    message_count: int
    usage: AgentUsage
