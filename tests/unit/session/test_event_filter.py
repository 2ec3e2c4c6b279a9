"""What a snapshot holds of each type of event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest

from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.wire.events import (
    AgentEvent,
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
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.plans import AgentPlan, PlanStatus
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import (
    AgentToolCall,
    ToolApproval,
    ToolCallStatus,
    ToolEffect,
    ToolSettlement,
)
from dex_agents.wire.usage import AgentUsage

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _call(
    status: ToolCallStatus,
    *,
    rounds: int = 0,
    approved: bool = False,
    settled: bool = False,
    tool_call_id: str = "c",
    response_index: int = 2,
) -> AgentToolCall:
    return AgentToolCall(
        tool_call_id=tool_call_id,
        model_call_id=tool_call_id,
        turn_id="turn-2",
        response_index=response_index,
        tool_name="tool",
        arguments="{}",
        effect=ToolEffect.READ,
        status=status,
        requested_at=NOW,
        input_rounds=rounds,
        approval=ToolApproval("approve", NOW) if approved else None,
        settlement=ToolSettlement(NOW, "person", "lost") if settled else None,
    )


def _plan(revision: int, status: PlanStatus = "active") -> AgentPlan:
    return AgentPlan(revision, status, ())


def _interrupt() -> AgentInterrupt:
    return AgentInterrupt(
        interrupt_id="approval:c",
        kind="approval",
        turn_id="turn-2",
        tool_call_id="c",
        tool_name="tool",
        effect=ToolEffect.READ,
        arguments="{}",
        opened_at=NOW,
    )


def _snapshot(
    *calls: AgentToolCall, running: bool = True, closed: bool = False, plan: AgentPlan | None = None
) -> AgentSnapshot:
    """Return a session in its second turn, of which two responses are stored, or after that turn."""
    return AgentSnapshot(
        session_id="s",
        status="closed" if closed else "running" if running else "idle",
        turn_count=2,
        messages=(),
        tool_calls=calls,
        interrupts=(),
        queued_messages=(),
        usage=AgentUsage(),
        started_at=NOW,
        turn_id="turn-2" if running else None,
        response_index=2 if running else 0,
        plan=plan,
    )


RUNNING = _snapshot()
OVER = _snapshot(running=False)
CLOSED = _snapshot(running=False, closed=True)

_OF_A_RESPONSE: tuple[AgentEvent, ...] = (
    UserMessageEvent(message_id="m", text="more"),
    ModelStarted(),
    TextDelta(text="a"),
    ReasoningDelta(text="b"),
    ModelCompleted(usage=AgentUsage()),
    SettingsUpdated(revision=1),
    ToolCallRequested(tool_call=_call("running")),
    InterruptOpened(interrupt=_interrupt()),
)
_ENDINGS: tuple[AgentEvent, ...] = (TurnCompletedEvent(), TurnFailed(error="no"), TurnCancelled())


def _at(event: AgentEvent, turn: int, response: int = 0) -> AgentEvent:
    return msgspec.structs.replace(event, turn_id=f"turn-{turn}", response_index=response)


def _names(events: tuple[AgentEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


@pytest.mark.parametrize("event", _OF_A_RESPONSE, ids=_names(_OF_A_RESPONSE))
@pytest.mark.parametrize(
    ("snapshot", "turn", "response", "held"),
    [
        (RUNNING, 1, 9, True),
        (RUNNING, 2, 2, True),
        (RUNNING, 2, 3, False),
        (RUNNING, 3, 1, False),
        (OVER, 2, 3, True),
        (OVER, 3, 1, False),
    ],
)
def test_what_belongs_to_a_response_is_held_when_that_is_stored(
    event: AgentEvent, snapshot: AgentSnapshot, turn: int, response: int, held: bool
) -> None:
    assert EventFilter(snapshot).holds(_at(event, turn, response)) is held


@pytest.mark.parametrize("event", _ENDINGS, ids=_names(_ENDINGS))
@pytest.mark.parametrize(
    ("snapshot", "turn", "held"),
    [(RUNNING, 1, True), (RUNNING, 2, False), (OVER, 2, True), (OVER, 3, False), (CLOSED, 2, True)],
)
def test_the_end_of_a_turn_is_held_when_it_is_over(
    event: AgentEvent, snapshot: AgentSnapshot, turn: int, held: bool
) -> None:
    assert EventFilter(snapshot).holds(_at(event, turn, 2)) is held


@pytest.mark.parametrize(("turn", "held"), [(1, True), (2, True), (3, False)])
def test_the_begin_of_a_turn_and_its_message_are_held_from_then_on(turn: int, held: bool) -> None:
    for event in (TurnStarted(), UserMessageEvent(message_id="m", text="hello")):
        assert EventFilter(RUNNING).holds(_at(event, turn)) is held


@pytest.mark.parametrize(
    "event",
    [
        SessionClosed(),
        UserMessageEvent(message_id="m", text="unanswered"),
        ToolCallCompleted(tool_call=_call("succeeded", settled=True)),
    ],
)
def test_what_the_end_of_the_session_tells_is_held_when_it_is_closed(event: AgentEvent) -> None:
    assert EventFilter(CLOSED).holds(event)
    assert not EventFilter(OVER).holds(event)


# One row for each state of a record, in the order in which a call can go through them.
_LIFE = (
    _call("pending"),
    _call("waiting_for_approval"),
    _call("pending", approved=True),
    _call("running", approved=True),
    _call("waiting_for_answer", rounds=1),
    _call("running", rounds=1),
    _call("polling", rounds=1),
    _call("waiting_for_answer", rounds=2),
    _call("polling", rounds=2),
    _call("outcome_unknown", rounds=2),
    _call("succeeded", rounds=2, settled=True),
)


@pytest.mark.parametrize("told", range(len(_LIFE)))
@pytest.mark.parametrize("held_up_to", range(len(_LIFE)))
def test_a_record_is_held_when_the_call_has_come_as_far(told: int, held_up_to: int) -> None:
    held = EventFilter(_snapshot(_LIFE[held_up_to]))
    record = _LIFE[told]
    for event in (
        ToolCallCompleted(tool_call=record),
        InterruptOpened(interrupt=_interrupt(), tool_call=record),
        InterruptClosed(interrupt_id="approval:c", tool_call=record),
    ):
        assert held.holds(_at(event, 2)) is (told <= held_up_to)


@pytest.mark.parametrize(
    ("record", "held"),
    [
        (_call("running"), False),
        (_call("waiting_for_answer", rounds=1), True),
        (_call("running", rounds=1), True),
        (_call("polling"), True),
        (_call("succeeded"), True),
    ],
)
def test_an_attempt_is_news_while_the_call_runs_in_the_same_round(record: AgentToolCall, held: bool) -> None:
    event = ToolCallStarted(tool_call_id="c", tool_name="tool", input_rounds=0)
    assert EventFilter(_snapshot(record)).holds(_at(event, 2)) is held


@pytest.mark.parametrize("status", get_args(ToolCallStatus))
def test_progress_and_the_end_of_waiting_are_news_until_the_call_is_over(status: ToolCallStatus) -> None:
    record = _call(status)
    for event in (
        ToolCallProgress(tool_call_id="c", text="half"),
        InterruptClosed(interrupt_id="approval:c"),
    ):
        assert EventFilter(_snapshot(record)).holds(_at(event, 2)) is record.is_final


def test_an_event_of_a_call_that_the_snapshot_does_not_know_is_news_unless_its_turn_is_over() -> None:
    for event in (
        ToolCallStarted(tool_call_id="x", tool_name="tool"),
        ToolCallProgress(tool_call_id="x", text="half"),
        ToolCallCompleted(tool_call=_call("succeeded", tool_call_id="x")),
        InterruptClosed(interrupt_id="question.2:x"),
    ):
        assert not EventFilter(RUNNING).holds(_at(event, 2))
        assert EventFilter(RUNNING).holds(_at(event, 1))
        assert EventFilter(OVER).holds(_at(event, 2))


@pytest.mark.parametrize(
    ("known", "told", "held"),
    [
        (None, _plan(1), False),
        (_plan(2), _plan(1), True),
        (_plan(2), _plan(2), True),
        (_plan(2), _plan(3, "draft"), False),
        (_plan(2, "draft"), _plan(2), False),
        (_plan(2), _plan(2, "draft"), True),
    ],
)
def test_a_plan_is_held_when_that_revision_or_a_later_one_is(
    known: AgentPlan | None, told: AgentPlan, held: bool
) -> None:
    assert EventFilter(_snapshot(plan=known)).holds(_at(PlanUpdated(plan=told), 2, 3)) is held


def test_what_is_held_ends_with_the_latest_committed_answer_or_the_end_of_a_turn() -> None:
    answer, start, end = ModelCompleted(usage=AgentUsage()), TurnStarted(), TurnFailed(error="no")
    fresh = msgspec.structs.replace(RUNNING, response_index=0)
    told = (_at(answer, 2, 1), _at(answer, 2, 2), _at(answer, 2, 3), _at(end, 1, 2), _at(end, 2, 2))
    told += (_at(end, 0), _at(start, 1), _at(start, 2), SessionClosed())
    ends = [
        [event for event in told if EventFilter(snapshot).ends_what_is_held(event)]
        for snapshot in (RUNNING, fresh, OVER)
    ]
    assert ends == [[_at(answer, 2, 2)], [_at(end, 1, 2)], [_at(end, 2, 2)]]
