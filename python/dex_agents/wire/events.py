"""Events: the live, best-effort view of a session. The snapshot is the truth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.tool_calls import AgentToolCall, ApprovalDecision
from dex_agents.wire.usage import AgentUsage

__all__ = [
    "AgentEvent",
    "ContextCompacted",
    "InterruptClosed",
    "InterruptOpened",
    "ModelCompleted",
    "ModelStarted",
    "PlanUpdated",
    "ReasoningDelta",
    "SessionClosed",
    "SettingsUpdated",
    "TextDelta",
    "ToolCallCompleted",
    "ToolCallProgress",
    "ToolCallRequested",
    "ToolCallStarted",
    "TurnCancelled",
    "TurnCompletedEvent",
    "TurnFailed",
    "TurnStarted",
    "UserMessageEvent",
]


_NOT_WRITTEN_YET: Final = datetime.fromtimestamp(0, UTC)


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What every event carries; a decision builds events without it, and the Step that writes them adds it.

    Attributes:
        seq: Position among the events of its Step, from 1.
        turn_id: The turn, or `None` when the event belongs to the session as a whole.
        attempt: The Step attempt that wrote it; a reader drops what a lower attempt of `step` wrote.
        step: The Step execution that wrote it.
        at: When.
    """

    seq: int = 0
    attempt: int = 0
    step: str = ""
    at: datetime = _NOT_WRITTEN_YET
    turn_id: str | None = None


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    """A turn took a message."""


class UserMessageEvent(_Event, frozen=True, tag="user_message"):
    """The message that the turn took.

    Attributes:
        message_id: Its ID.
        text: Its text.
    """

    message_id: str
    text: str


class ModelStarted(_Event, frozen=True, tag="model_started"):
    """A model call begins."""


class TextDelta(_Event, frozen=True, tag="text_delta"):
    """More text of the answer.

    Attributes:
        text: The added text.
    """

    text: str


class ReasoningDelta(_Event, frozen=True, tag="reasoning_delta"):
    """More of the model's visible reasoning.

    Attributes:
        text: The added text.
    """

    text: str


class ModelCompleted(_Event, frozen=True, tag="model_completed"):
    """A model call ended.

    Attributes:
        usage: What this call consumed.
    """

    usage: AgentUsage


class ToolCallRequested(_Event, frozen=True, tag="tool_call_requested"):
    """The model asked for a tool.

    Attributes:
        tool_call: The record as it is committed with the response.
    """

    tool_call: AgentToolCall


class ToolCallStarted(_Event, frozen=True, tag="tool_call_started"):
    """An attempt of a tool call enters the tool.

    Attributes:
        tool_call_id: The call.
        tool_name: The tool.
    """

    tool_call_id: str
    tool_name: str


class ToolCallProgress(_Event, frozen=True, tag="tool_call_progress"):
    """What a running tool reports.

    Attributes:
        tool_call_id: The call.
        text: The tool's own words.
    """

    tool_call_id: str
    text: str


class ToolCallCompleted(_Event, frozen=True, tag="tool_call_completed"):
    """A call has its final status.

    Attributes:
        tool_call: The final record.
    """

    tool_call: AgentToolCall


class InterruptOpened(_Event, frozen=True, tag="interrupt_opened"):
    """The session waits on a person.

    Attributes:
        interrupt: What is asked.
    """

    interrupt: AgentInterrupt


class InterruptClosed(_Event, frozen=True, tag="interrupt_closed"):
    """A person decided, or nobody needs to any more.

    Attributes:
        interrupt_id: Which one.
        decision: What was decided; `None` when the question fell away.
    """

    interrupt_id: str
    decision: ApprovalDecision | None = None


class ContextCompacted(_Event, frozen=True, tag="context_compacted"):
    """A summary took the place of earlier messages in the model's input; they stay in the transcript.

    Attributes:
        revision: Of the summary, from 1.
        covered_through: The sequence number of the last message that it covers.
    """

    revision: int
    covered_through: int


class PlanUpdated(_Event, frozen=True, tag="plan_updated"):
    """The model wrote the plan anew.

    Attributes:
        plan: The plan as it is now.
    """

    plan: AgentPlan


class SettingsUpdated(_Event, frozen=True, tag="settings_updated"):
    """A model call is the first that uses new session settings.

    Attributes:
        revision: Counts the updates of the session, from 1.
    """

    revision: int


class TurnCompletedEvent(_Event, frozen=True, tag="turn_completed"):
    """The turn ended with an answer."""


class TurnFailed(_Event, frozen=True, tag="turn_failed"):
    """The turn ended without one.

    Attributes:
        error: Why.
    """

    error: str


class TurnCancelled(_Event, frozen=True, tag="turn_cancelled"):
    """The turn was cancelled."""


class SessionClosed(_Event, frozen=True, tag="session_closed"):
    """The session takes no more commands."""


AgentEvent = (
    TurnStarted
    | UserMessageEvent
    | ModelStarted
    | TextDelta
    | ReasoningDelta
    | ModelCompleted
    | ToolCallRequested
    | ToolCallStarted
    | ToolCallProgress
    | ToolCallCompleted
    | InterruptOpened
    | InterruptClosed
    | ContextCompacted
    | PlanUpdated
    | SettingsUpdated
    | TurnCompletedEvent
    | TurnFailed
    | TurnCancelled
    | SessionClosed
)
"""Every event; `match` on the class."""
