"""Which events a snapshot holds already, so that it and the events after it show everything exactly once.

An event is written before the commit that it tells of, so around the time of a snapshot both orders occur:
the snapshot may hold what an event that is read later says, and lack what one before it said. So nothing is
told apart by time, but by how far turn, response, tool call and plan have come: each only moves forward.
"""

from __future__ import annotations

from typing import Final, assert_never

from dex_agents.session.transitions.interrupts import interrupt_tool_call_id
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
from dex_agents.wire.plans import AgentPlan, PlanStatus
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import AgentToolCall, ToolCallStatus

__all__ = ["EventFilter"]

_Stage = tuple[int, int, int]

_WAITING: Final = 1
_APPROVED: Final = 2
_RUNNING: Final = 3
_PLACES: Final[dict[ToolCallStatus, int]] = {
    "pending": 0,
    "waiting_for_approval": _WAITING,
    "waiting_for_answer": _WAITING,
    "waiting_for_time": _WAITING,
    "running": _RUNNING,
    "polling": 4,
}
"""Places between two questions of a tool; a call with a final status is past all of them."""

_PLAN_PLACES: Final[dict[PlanStatus, int]] = {"draft": 0, "active": 1, "done": 2}


class EventFilter:
    """Tells the events that a snapshot holds from those that it does not."""

    def __init__(self, snapshot: AgentSnapshot) -> None:
        """Look at a snapshot once; each event then costs the same however long the session is."""
        self._turn_count = snapshot.turn_count
        self._is_running = snapshot.turn_id is not None
        self._response_index = snapshot.response_index
        self._is_closed = snapshot.status == "closed"
        self._plan = snapshot.plan
        summary = snapshot.context_summary
        self._summary_revision = 0 if summary is None else summary.revision
        self._stages = {call.tool_call_id: _stage(call) for call in snapshot.tool_calls}

    def holds(self, event: AgentEvent) -> bool:
        """Whether the snapshot shows what the event tells."""
        match event:
            case TurnStarted():
                return _number(event) <= self._turn_count
            case (
                UserMessageEvent()
                | ModelStarted()
                | TextDelta()
                | ReasoningDelta()
                | ModelCompleted()
                | SettingsUpdated()
                | ToolCallRequested()
            ):
                return self._has_response(event)
            case ToolCallStarted():
                # A running call does not say which attempt runs: that is news to whoever sees it run.
                return self._is_past(event, event.tool_call_id, (0, event.input_rounds, _RUNNING))
            case ToolCallProgress():
                # No snapshot holds progress, and nobody needs that of a call which is over.
                return self._is_final(event, event.tool_call_id)
            case ToolCallCompleted():
                return self._has_reached(event, event.tool_call)
            case InterruptOpened():
                if event.tool_call is None:
                    return self._has_response(event)
                return self._has_reached(event, event.tool_call)
            case InterruptClosed():
                if event.tool_call is None:
                    return self._is_final(event, interrupt_tool_call_id(event.interrupt_id))
                return self._has_reached(event, event.tool_call)
            case ContextCompacted():
                return event.revision <= self._summary_revision
            case PlanUpdated():
                return self._plan is not None and _plan_stage(event.plan) <= _plan_stage(self._plan)
            case TurnCompletedEvent() | TurnFailed() | TurnCancelled():
                return self._is_over(event)
            case SessionClosed():
                return self._is_closed
            case _:
                assert_never(event)

    def ends_what_is_held(self, event: AgentEvent) -> bool:
        """Whether the snapshot holds everything that its session's Steps wrote up to this event.

        True for the event with which the latest committed model call, or the turn before it, ended: no call
        runs beside a model call, so what follows in the stream is all that may be missing.
        """
        if not self._is_running or self._response_index == 0:
            # The begin of a turn may be told more than once, and later than a snapshot holds it.
            is_ending = isinstance(event, TurnCompletedEvent | TurnFailed | TurnCancelled)
            return is_ending and _number(event) == self._turn_count - self._is_running
        is_answer = isinstance(event, ModelCompleted) and event.response_index == self._response_index
        return is_answer and _number(event) == self._turn_count

    def _is_over(self, event: AgentEvent) -> bool:
        if event.turn_id is None:
            # Told with the end of the session.
            return self._is_closed
        number = _number(event)
        return number < self._turn_count or (number == self._turn_count and not self._is_running)

    def _has_response(self, event: AgentEvent) -> bool:
        if event.turn_id is None or self._is_over(event):
            return self._is_over(event)
        return _number(event) == self._turn_count and event.response_index <= self._response_index

    def _is_past(self, event: AgentEvent, tool_call_id: str, stage: _Stage) -> bool:
        known = self._stages.get(tool_call_id)
        return self._is_over(event) if known is None else known > stage

    def _is_final(self, event: AgentEvent, tool_call_id: str) -> bool:
        known = self._stages.get(tool_call_id)
        return self._is_over(event) if known is None else known[0] > 0

    def _has_reached(self, event: AgentEvent, call: AgentToolCall) -> bool:
        known = self._stages.get(call.tool_call_id)
        return self._is_over(event) if known is None else known >= _stage(call)


def _stage(call: AgentToolCall) -> _Stage:
    """Return how far a call has come: final or settled, then how often it has asked, then the place."""
    if call.is_final:
        return (1 if call.settlement is None else 2, 0, 0)
    place = _PLACES[call.status]
    if call.status == "pending" and call.approval is not None:
        place = _APPROVED
    return (0, call.input_rounds, place)


def _plan_stage(plan: AgentPlan) -> tuple[int, int]:
    return (plan.revision, _PLAN_PLACES[plan.status])


def _number(event: AgentEvent) -> int:
    return 0 if event.turn_id is None else int(event.turn_id.removeprefix("turn-"))
