"""What one decision looks at, and what it wants written: values between transitions and Steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from dex_agents.errors import RunnerContractError
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.events import AgentEvent
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import AgentMessage
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.sessions import AgentTurnState, SessionRecord, SessionStatus
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "CallModel",
    "NextStep",
    "SessionChange",
    "SessionRules",
    "StartToolCalls",
    "ToolBegin",
    "ToolStart",
    "TurnView",
    "WaitForUser",
]


@dataclass(frozen=True, kw_only=True)
class SessionRules:
    """What the application chose, as far as decisions depend on it.

    Attributes:
        built_in_tools: Names of the tools that the session itself runs.
        interrupt_deadline: How long a person has to decide or to answer; `None` for ever.
    """

    built_in_tools: frozenset[str] = frozenset()
    interrupt_deadline: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class TurnView:
    """The running turn as committed.

    Attributes:
        record: The session.
        turn: `record.turn`, which is not `None` here.
        messages: Every stored message that no summary covers, in sequence order.
        tool_calls: The turn's records, in the order in which the calls were asked.
        summary: What stands for the messages before, or `None`.
        chunks: First sequence numbers of the chunks that hold `messages`.
        plan: The latest plan, or `None`.
    """

    record: SessionRecord
    turn: AgentTurnState
    messages: Sequence[AgentMessage]
    tool_calls: Sequence[AgentToolCall]
    summary: ContextSummary | None = None
    chunks: tuple[int, ...] = ()
    plan: AgentPlan | None = None

    @property
    def turn_messages(self) -> tuple[AgentMessage, ...]:
        """This turn's messages that no summary covers: the user's, and what the runner stored since."""
        return tuple(message for message in self.messages if message.sequence >= self.turn.first_sequence)

    @property
    def open_calls(self) -> tuple[AgentToolCall, ...]:
        """The turn's calls whose result is not among its messages."""
        answered = {message.tool_call_id for message in self.turn_messages if message.role == "tool"}
        return tuple(call for call in self.tool_calls if call.tool_call_id not in answered)


ToolBegin = Literal["approval", "answer", "time", "earlier_write", "call"]


@dataclass(frozen=True)
class ToolStart:
    """How a call begins.

    Attributes:
        tool_call: Its record as committed with the response.
        begins_with: `approval` and `answer` wait for a person, `time` for a point in time, `earlier_write`
            for the write before it, `call` runs.
        next_write_id: For an ordered write: the one that waits for it.
        follows_write: Whether it waits for an earlier ordered write.
    """

    tool_call: AgentToolCall
    begins_with: ToolBegin
    next_write_id: str | None = None
    follows_write: bool = False


@dataclass(frozen=True)
class CallModel:
    """A model call follows."""


@dataclass(frozen=True)
class StartToolCalls:
    """Tool calls follow, then the model call that reads their results.

    Attributes:
        starts: At least one, in the model's order.
        interrupts: What those wait on that do not run at once.
    """

    starts: tuple[ToolStart, ...]
    interrupts: tuple[AgentInterrupt, ...] = ()


@dataclass(frozen=True)
class WaitForUser:
    """The turn is over."""


NextStep = CallModel | StartToolCalls | WaitForUser


@dataclass(frozen=True, kw_only=True)
class SessionChange:
    """Everything that one decision writes, in one commit, and what follows it.

    Attributes:
        record: The session as it becomes.
        status: The public status as it becomes.
        next_step: What follows.
        new_messages: Added at the end, in sequence order.
        tool_calls: Records as they become.
        opened_interrupts: Questions to a person.
        closed_interrupts: IDs of questions that fell away.
        plan: The plan as it becomes, when this change writes it.
        events: For live viewers.
        context_summary: A new summary, or `None` to leave it.
    """

    record: SessionRecord
    status: SessionStatus
    next_step: NextStep
    new_messages: tuple[AgentMessage, ...] = ()
    tool_calls: tuple[AgentToolCall, ...] = ()
    opened_interrupts: tuple[AgentInterrupt, ...] = ()
    closed_interrupts: tuple[str, ...] = ()
    plan: AgentPlan | None = None
    events: tuple[AgentEvent, ...] = ()
    context_summary: ContextSummary | None = None

    @property
    def ends_turn(self) -> bool:
        """Whether a turn ends with this change; the end of a session has no turn to end."""
        return self.status == "idle"

    @property
    def running_turn(self) -> AgentTurnState:
        """The turn that goes on or begins with this change.

        Raises:
            RunnerContractError: No turn runs after this change.
        """
        if self.record.turn is None:
            raise RunnerContractError("no turn runs after this change")
        return self.record.turn
