"""Events: the live, best-effort view of a session. The snapshot is the truth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from dex_agents.wire.images import AgentImageReference
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
        response_index: For what a model call says and what joins it: the response of the turn that it gives,
            from 1. For the end of a turn: how many responses the turn has stored; what a viewer was shown of
            later ones was lost.
        attempt: The Step attempt that wrote it; a reader drops what a lower attempt of `step` wrote.
        step: The Step execution that wrote it; for what tells that a turn began, the name of that
            announcement, since more than one Step may make it.
        at: When.
    """

    seq: int = 0
    attempt: int = 0
    step: str = ""
    at: datetime = _NOT_WRITTEN_YET
    turn_id: str | None = None
    response_index: int = 0


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    """A turn took a message."""


class UserMessageEvent(_Event, frozen=True, tag="user_message"):
    """A message of the user that a turn took, that joined one, or that the session's end left unanswered.

    Only the last has no `turn_id`.

    Attributes:
        message_id: Its ID.
        text: Its text.
        images: Its images.
    """

    message_id: str
    text: str
    images: tuple[AgentImageReference, ...] = ()


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
        usage: What this call consumed, and a summary before it that came to nothing.
        text: The answer as it is stored, cut at `limits.MAX_EVENT_TEXT_BYTES`, when the text deltas of this
            attempt gave another one or none; `None` when they gave it.
    """

    usage: AgentUsage
    text: str | None = None


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
        input_rounds: How often the tool has asked a person before this attempt.
    """

    tool_call_id: str
    tool_name: str
    input_rounds: int = 0


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
    """A call waits: for a person, a point in time or a remote task.

    Attributes:
        interrupt: What it waits on.
        tool_call: The record as it waits; `None` when the call waits since it was requested.
    """

    interrupt: AgentInterrupt
    tool_call: AgentToolCall | None = None


class InterruptClosed(_Event, frozen=True, tag="interrupt_closed"):
    """A call does not wait any more: a person decided, or nobody needs to.

    Attributes:
        interrupt_id: Which one.
        decision: What was decided about an approval; `None` when it fell away.
        tool_call: The record as the call goes on; `None` when it is over, which `tool_call_completed` tells.
    """

    interrupt_id: str
    decision: ApprovalDecision | None = None
    tool_call: AgentToolCall | None = None


class ContextCompacted(_Event, frozen=True, tag="context_compacted"):
    """A summary took the place of earlier messages in the model's input; they stay in the transcript.

    Attributes:
        revision: Of the summary, from 1.
        covered_through: The sequence number of the last message that it covers.
        usage: What the call that wrote it consumed.
    """

    revision: int
    covered_through: int
    usage: AgentUsage = AgentUsage()


class PlanUpdated(_Event, frozen=True, tag="plan_updated"):
    """The model wrote the plan anew, or a turn begins on a plan that a person approved.

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
