"""What a user interface shows of a session, plainly: a snapshot, then one event after the other.

Every look at it folds all events again: those that were taken back are left out, then the rest is applied
in order. Two views of one session are the same when they show the same, wherever each began to watch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dex_agents.wire.events import (
    AgentEvent,
    ContextCompacted,
    InterruptClosed,
    InterruptOpened,
    ModelCompleted,
    ModelStarted,
    PlanUpdated,
    ReasoningDelta,
    SessionClosed,
    SettingsUpdated,
    TextDelta,
    ToolCallCompleted,
    ToolCallProgress,
    ToolCallRequested,
    ToolCallStarted,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
    TurnStarted,
    UserMessageEvent,
)
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import AgentToolCall
from dex_agents.wire.usage import AgentUsage, add_agent_usage

Said = tuple[str, str, str]
"""Who (`user` or `assistant`), in which turn, and what."""


@dataclass(frozen=True)
class ShownCall:
    """A tool call as it is drawn."""

    name: str
    status: str
    result: str | None
    running_attempt: int = 0
    progress: tuple[str, ...] = ()


@dataclass
class Screen:
    """Everything that is shown."""

    status: str = "idle"
    turn_count: int = 0
    said: list[Said] = field(default_factory=list[Said])
    being_said: str = ""
    being_thought: str = ""
    calls: dict[str, ShownCall] = field(default_factory=dict[str, ShownCall])
    interrupts: set[str] = field(default_factory=set[str])
    plan: AgentPlan | None = None
    summary_revision: int = 0
    usage: AgentUsage = field(default_factory=AgentUsage)
    settings_revision: int = 0
    last_turn: tuple[str, str | None] | None = None


class SessionView:
    """A viewer: hand it a snapshot or nothing to begin with, then every event that it reads."""

    def __init__(self, snapshot: AgentSnapshot | None = None) -> None:
        self._snapshot = snapshot
        self.events: list[AgentEvent] = []

    def take(self, event: AgentEvent) -> None:
        self.events.append(event)

    @property
    def screen(self) -> Screen:
        screen = Screen() if self._snapshot is None else show_snapshot(self._snapshot)
        for event in surviving_events(self.events):
            _apply(screen, event)
        return screen


def surviving_events(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """Leave out what was taken back: by a later attempt of the same Step, or by the end of its turn."""
    attempts: dict[str, int] = {}
    for event in events:
        attempts[event.step] = max(attempts.get(event.step, 0), event.attempt)
    valid = [event for event in events if event.attempt == attempts[event.step]]
    endings = {
        event.turn_id: event
        for event in valid
        if isinstance(event, TurnCompletedEvent | TurnFailed | TurnCancelled)
    }
    kept: list[AgentEvent] = []
    for event in valid:
        ending = endings.get(event.turn_id)
        is_lost = (
            ending is not None and event.step != ending.step and event.response_index > ending.response_index
        )
        if not is_lost:
            kept.append(event)
    return kept


def show_snapshot(snapshot: AgentSnapshot) -> Screen:
    said = [
        (message.role, message.turn_id, message.text)
        for message in snapshot.messages
        if message.text
        and (message.role == "assistant" or (message.role == "user" and message.message_id is not None))
    ]
    ended = snapshot.last_turn_outcome
    return Screen(
        status=snapshot.status,
        turn_count=snapshot.turn_count,
        said=said,
        calls={call.tool_call_id: _show_call(call) for call in snapshot.tool_calls},
        interrupts={one.interrupt_id for one in snapshot.interrupts},
        plan=snapshot.plan,
        summary_revision=0 if snapshot.context_summary is None else snapshot.context_summary.revision,
        usage=snapshot.usage,
        settings_revision=snapshot.settings_revision,
        last_turn=None if ended is None else (ended, snapshot.last_turn_error),
    )


def _show_call(call: AgentToolCall, shown: ShownCall | None = None) -> ShownCall:
    result = call.output if call.status == "succeeded" else call.error
    if call.is_final or shown is None:
        return ShownCall(call.tool_name, call.status, result)
    return ShownCall(call.tool_name, call.status, result, shown.running_attempt, shown.progress)


def _apply(screen: Screen, event: AgentEvent) -> None:
    match event:
        case TurnStarted():
            screen.status, screen.turn_count = "running", screen.turn_count + 1
        case UserMessageEvent():
            turn_id = event.turn_id or f"turn-{screen.turn_count}"
            screen.said.append(("user", turn_id, event.text))
        case ModelStarted():
            screen.being_said, screen.being_thought = "", ""
        case TextDelta():
            screen.being_said += event.text
        case ReasoningDelta():
            screen.being_thought += event.text
        case ModelCompleted():
            text = screen.being_said if event.text is None else event.text
            if text:
                screen.said.append(("assistant", event.turn_id or "", text))
            screen.being_said, screen.being_thought = "", ""
            screen.usage = add_agent_usage(screen.usage, event.usage)
        case ToolCallRequested() | ToolCallCompleted():
            call = event.tool_call
            screen.calls[call.tool_call_id] = _show_call(call, screen.calls.get(call.tool_call_id))
        case ToolCallStarted():
            shown = screen.calls[event.tool_call_id]
            screen.calls[event.tool_call_id] = ShownCall(
                shown.name, "running", None, event.attempt, shown.progress
            )
        case ToolCallProgress():
            shown = screen.calls[event.tool_call_id]
            screen.calls[event.tool_call_id] = ShownCall(
                shown.name, shown.status, None, shown.running_attempt, (*shown.progress, event.text)
            )
        case InterruptOpened():
            screen.interrupts.add(event.interrupt.interrupt_id)
            _follow(screen, event.tool_call)
        case InterruptClosed():
            screen.interrupts.discard(event.interrupt_id)
            _follow(screen, event.tool_call)
        case PlanUpdated():
            screen.plan = event.plan
        case ContextCompacted():
            screen.summary_revision = event.revision
            screen.usage = add_agent_usage(screen.usage, event.usage)
        case SettingsUpdated():
            screen.settings_revision = event.revision
        case TurnCompletedEvent():
            _end(screen, "completed")
        case TurnFailed():
            _end(screen, "failed", event.error)
        case TurnCancelled():
            _end(screen, "cancelled")
        case SessionClosed():
            screen.status = "closed"


def _follow(screen: Screen, call: AgentToolCall | None) -> None:
    if call is not None:
        screen.calls[call.tool_call_id] = _show_call(call, screen.calls.get(call.tool_call_id))


def _end(screen: Screen, outcome: str, error: str | None = None) -> None:
    screen.status, screen.last_turn = "idle", (outcome, error)
    screen.being_said, screen.being_thought = "", ""
