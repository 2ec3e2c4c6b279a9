"""The small record that every Step of a session reads."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from dex_agents.wire.spend import SpendReport
from dex_agents.wire.usage import AgentUsage, ModelUsage

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
        tool_call_ids: This turn's calls in the order in which they were asked; without those whose results
            a summary covers.
        waiting_call_ids: The calls of the latest response.
        plan_mode: Whether the turn writes a plan and runs nothing.
        approved_plan: The revision of the plan whose approval began the turn.
        model_usage: What the turn consumed so far, one entry a model.
    """

    number: int
    started_at: datetime
    first_sequence: int
    response_index: int = 0
    framework_run_state: str | None = None
    tool_call_ids: tuple[str, ...] = ()
    waiting_call_ids: tuple[str, ...] = ()
    plan_mode: bool = False
    approved_plan: int | None = None
    model_usage: tuple[ModelUsage, ...] = ()

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
        chunks: First sequence numbers of the chunks with messages that the model reads, oldest first; empty
            while those are all that are stored, since then nobody needs to name them.
        covered_through: The last message that the model no longer reads: a summary covers it, or it was
            dropped; 0 for none.
        summary_revision: Of the stored summary; 0 for none.
        dropped_messages: Messages that retention deleted, from the first on.
        retention_turn: The turn after which retention was last applied; 0 for never.
        input_token_anchor: What the runner left for its next estimate; opaque to the session.
        unreported_spend: Calls that the spend limiter could not be told of yet.
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
    chunks: tuple[int, ...] = ()
    covered_through: int = 0
    summary_revision: int = 0
    dropped_messages: int = 0
    retention_turn: int = 0
    input_token_anchor: str | None = None
    unreported_spend: tuple[SpendReport, ...] = ()


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
