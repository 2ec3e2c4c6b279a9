"""What Steps hand to each other. Small on purpose: state is read from Attributes, never carried along."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dex_agents.wire.interrupts import AgentQuestion
from dex_agents.wire.messages import AgentUserMessage

__all__ = ["IdleStepInput", "SessionStepInput", "ToolStepInput", "TurnStepInput"]


class SessionStepInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start input of a session Flow.

    Attributes:
        start_environment: Says where the starting program ran; kept in the start input, never read.
        first_message: Begins the first turn together with the session.
    """

    start_environment: dict[str, str] = {}
    first_message: AgentUserMessage | None = None


class IdleStepInput(msgspec.Struct, frozen=True):
    """Nothing: the Step reads the session's Attributes."""


class TurnStepInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names the point of a turn that a Step belongs to.

    Attributes:
        turn_number: The turn.
        response_index: Model responses of the turn that were stored when the Step was scheduled.
        begins_turn: For `RunModel`: whether the turn has not been told to viewers yet.
        calls_to_join: For `ResumeTurn`: how many calls of the response report that they are final.
        is_grace_over: For `CancelTurn`: whether the running calls have had their time.
    """

    turn_number: int
    response_index: int
    begins_turn: bool = False
    calls_to_join: int = 0
    is_grace_over: bool = False


class ToolStepInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names the call that a Step belongs to.

    Attributes:
        turn_number: The turn.
        response_index: The response that asked.
        tool_call_id: The call.
        next_write_id: For an ordered write: the one that waits for it.
        follows_write: Whether the call waits for an earlier ordered write.
        is_alone: Whether no other call of the response runs: then its end leads to the model.
        until: For a Step that waits: when it goes on by itself; `None` for never.
        questions: For `AwaitQuestionAnswer`: what was asked.
        unknown_because: For `ReconcileToolCall`: why the outcome is unknown.
    """

    turn_number: int
    response_index: int
    tool_call_id: str
    next_write_id: str | None = None
    follows_write: bool = False
    is_alone: bool = False
    until: datetime | None = None
    questions: tuple[AgentQuestion, ...] = ()
    unknown_because: str | None = None
