"""Turns: how one begins, what a model call leads to, and how one ends; `turn_moves` is the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

import msgspec

from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.runner.outcomes import AgentTurnOutcome, ToolCallsRequested, TurnCompleted, TurnContinued
from dex_agents.session.state import (
    CallModel,
    SessionChange,
    SessionRules,
    StartToolCalls,
    TurnView,
    WaitForUser,
)
from dex_agents.session.transitions.call_planning import plan_tool_calls
from dex_agents.session.transitions.interrupts import open_interrupt_id
from dex_agents.session.transitions.joining import JoiningMessage, number_joined
from dex_agents.session.transitions.messages import number_messages
from dex_agents.session.transitions.tool_calls import cancel_tool_call
from dex_agents.session.transitions.turn_moves import (
    SESSION_STATUSES,
    TurnMove,
    TurnPhase,
    find_turn_phase,
    move_turn,
)
from dex_agents.wire.events import (
    AgentEvent,
    InterruptClosed,
    InterruptOpened,
    ModelCompleted,
    PlanUpdated,
    ToolCallCompleted,
    ToolCallRequested,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
    TurnStarted,
    UserMessageEvent,
)
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, QueuedMessage
from dex_agents.wire.sessions import AgentTurnState, SessionRecord, TurnOutcome
from dex_agents.wire.usage import AgentUsage, add_agent_usage

__all__ = [
    "begin_turn",
    "cancel_turn",
    "cancelled_tool_calls",
    "decide_model_outcome",
    "describe_beginning",
    "fail_turn",
    "first_tool_call_number",
    "used_tool_call_ids",
    "with_settings_revision",
]


def begin_turn(
    record: SessionRecord,
    message: QueuedMessage,
    user_message: FrameworkMessage,
    now: datetime,
) -> SessionChange:
    """Take a message and begin its turn; `describe_beginning` says later what viewers are told of it.

    Args:
        record: The session, without a running turn.
        message: What was accepted.
        user_message: The same as the runner spells it.
        now: The time of the commit.
    """
    phase = move_turn(find_turn_phase(record), "take_message")
    number = record.turn_count + 1
    turn = AgentTurnState(
        number=number,
        started_at=now,
        first_sequence=record.next_sequence,
        plan_mode=message.plan_mode,
        approved_plan=message.approved_plan,
    )
    stored = number_messages(
        [user_message],
        next_sequence=record.next_sequence,
        turn_id=turn.turn_id,
        now=now,
        message_id=message.message_id,
    )
    return SessionChange(
        record=msgspec.structs.replace(
            record, turn_count=number, turn=turn, next_sequence=record.next_sequence + len(stored)
        ),
        status=SESSION_STATUSES[phase],
        next_step=CallModel(),
        new_messages=stored,
    )


def describe_beginning(view: TurnView) -> tuple[AgentEvent, ...]:
    """Return what viewers are told of a turn that has begun; nothing once a summary covers its message."""
    first = next((one for one in view.turn_messages if one.sequence == view.turn.first_sequence), None)
    if first is None:
        return ()
    turn_id, plan = view.turn.turn_id, view.plan
    events: list[AgentEvent] = [
        TurnStarted(turn_id=turn_id),
        UserMessageEvent(
            turn_id=turn_id, message_id=first.message_id or "", text=first.text or "", images=first.images
        ),
    ]
    if plan is not None and plan.revision == view.turn.approved_plan:
        events.append(PlanUpdated(turn_id=turn_id, plan=plan))
    return tuple(events)


def with_settings_revision(view: TurnView, revision: int) -> TurnView:
    """Return the turn as it goes on with other session settings."""
    record = msgspec.structs.replace(view.record, settings_revision=revision)
    return replace(view, record=record)


def used_tool_call_ids(view: TurnView) -> frozenset[str]:
    """Return every tool call ID that the session has used, as far as its messages and this turn show."""
    stored = {message.tool_call_id for message in view.messages if message.tool_call_id is not None}
    return frozenset(stored.union(view.turn.tool_call_ids))


def first_tool_call_number(view: TurnView) -> int:
    """Return from which number on `#<k>` makes a tool call ID unique.

    Behind a summary nobody knows which IDs were used. No earlier `<k>` reaches the number of the next
    message: each call has had its own message at least.
    """
    return view.record.next_sequence if view.record.covered_through else 1


def decide_model_outcome(
    view: TurnView,
    outcome: AgentTurnOutcome,
    now: datetime,
    *,
    rules: SessionRules,
    joining: Sequence[JoiningMessage] = (),
    streamed_text: str = "",
) -> SessionChange:
    """Follow what a model call led to.

    Args:
        view: The turn as committed.
        outcome: What the runner returned.
        now: The time of the commit.
        rules: What the application chose.
        joining: What joined the turn before this model call, oldest first.
        streamed_text: The answer as the text deltas gave it to viewers.

    Raises:
        RunnerContractError: The runner returned something that the session cannot store or follow.
    """
    answered = ModelCompleted(
        turn_id=view.turn.turn_id,
        usage=outcome.usage,
        text=_correct_text(outcome.new_messages, streamed_text),
    )
    match outcome:
        case TurnCompleted():
            return _complete(view, outcome, answered, joining, now)
        case TurnContinued():
            return _continue(view, outcome, answered, joining, now)
        case ToolCallsRequested():
            return _request_tools(view, outcome, answered, joining, now, rules=rules)
        case _:
            assert_never(outcome)


def _complete(
    view: TurnView,
    outcome: TurnCompleted,
    answered: ModelCompleted,
    joining: Sequence[JoiningMessage],
    now: datetime,
) -> SessionChange:
    turn_id = view.turn.turn_id
    result: TurnOutcome
    ending: AgentEvent
    if outcome.turn_error is None:
        phase = _move(view, "answer")
        result, ending = "completed", TurnCompletedEvent(turn_id=turn_id)
    else:
        phase = _move(view, "give_up")
        result, ending = "failed", TurnFailed(turn_id=turn_id, error=outcome.turn_error)
    stored = _store(view, outcome.new_messages, now, joining)
    return SessionChange(
        record=_end(view.record, result, outcome.turn_error, stored, outcome.usage),
        status=SESSION_STATUSES[phase],
        next_step=WaitForUser(),
        new_messages=stored,
        events=(answered, ending),
    )


def _continue(
    view: TurnView,
    outcome: TurnContinued,
    answered: ModelCompleted,
    joining: Sequence[JoiningMessage],
    now: datetime,
) -> SessionChange:
    phase = _move(view, "continue")
    stored = _store(view, outcome.new_messages, now, joining)
    turn = msgspec.structs.replace(
        view.turn,
        response_index=view.turn.response_index + 1,
        framework_run_state=_require_run_state(outcome.framework_run_state),
        waiting_call_ids=(),
    )
    return SessionChange(
        record=_go_on(view.record, turn, stored, outcome.usage),
        status=SESSION_STATUSES[phase],
        next_step=CallModel(),
        new_messages=stored,
        events=(answered,),
    )


def _request_tools(
    view: TurnView,
    outcome: ToolCallsRequested,
    answered: ModelCompleted,
    joining: Sequence[JoiningMessage],
    now: datetime,
    *,
    rules: SessionRules,
) -> SessionChange:
    turn_id, response_index = view.turn.turn_id, view.turn.response_index + 1
    planned = plan_tool_calls(
        outcome.tool_calls,
        turn_id=turn_id,
        response_index=response_index,
        used_tool_call_ids=used_tool_call_ids(view),
        now=now,
        rules=rules,
        plan=view.plan,
        plan_mode=view.turn.plan_mode,
    )
    phase = _move(view, "request_tools" if planned.starts else "refuse_calls")
    stored = _store(view, outcome.new_messages, now, joining)
    asked = tuple(call.tool_call_id for call in planned.records)
    turn = msgspec.structs.replace(
        view.turn,
        response_index=response_index,
        framework_run_state=_require_run_state(outcome.framework_run_state),
        tool_call_ids=view.turn.tool_call_ids + asked,
        waiting_call_ids=asked,
    )
    events: list[AgentEvent] = [answered]
    events += [ToolCallRequested(turn_id=turn_id, tool_call=call) for call in planned.records]
    events += [
        ToolCallCompleted(turn_id=turn_id, tool_call=call) for call in planned.records if call.is_final
    ]
    if planned.plan is not None:
        events.append(PlanUpdated(turn_id=turn_id, plan=planned.plan))
    events += [InterruptOpened(turn_id=turn_id, interrupt=asking) for asking in planned.interrupts]
    return SessionChange(
        record=_go_on(view.record, turn, stored, outcome.usage),
        status=SESSION_STATUSES[phase],
        next_step=StartToolCalls(planned.starts, planned.interrupts) if planned.starts else CallModel(),
        new_messages=stored,
        tool_calls=planned.records,
        opened_interrupts=planned.interrupts,
        plan=planned.plan,
        events=tuple(events),
    )


def fail_turn(
    view: TurnView, closing_messages: Sequence[FrameworkMessage], error: str, now: datetime
) -> SessionChange:
    """End the turn without an answer; its calls keep their results and the session goes on."""
    phase = _move(view, "fail")
    stored = _store(view, closing_messages, now)
    return SessionChange(
        record=_end(view.record, "failed", error, stored, AgentUsage()),
        status=SESSION_STATUSES[phase],
        next_step=WaitForUser(),
        new_messages=stored,
        events=(TurnFailed(turn_id=view.turn.turn_id, error=error),),
    )


def cancelled_tool_calls(view: TurnView, now: datetime) -> TurnView:
    """Return the turn with every call final, as a cancellation leaves them."""
    return replace(view, tool_calls=tuple(cancel_tool_call(call, now) for call in view.tool_calls))


def cancel_turn(
    before: TurnView,
    after: TurnView,
    closing_messages: Sequence[FrameworkMessage],
    now: datetime,
    *,
    joining: Sequence[JoiningMessage] = (),
) -> SessionChange:
    """End the turn because a person wished so.

    Args:
        before: The turn as committed.
        after: The same turn from `cancelled_tool_calls`.
        closing_messages: What closes the transcript.
        now: The time of the commit.
        joining: What was to join the turn: it stays in the transcript of the turn that it was meant for.
    """
    phase = move_turn(_move(before, "cancel"), "end_cancelled")
    turn_id = before.turn.turn_id
    changed = tuple(
        new for old, new in zip(before.tool_calls, after.tool_calls, strict=True) if old is not new
    )
    waiting = (open_interrupt_id(call) for call in before.tool_calls)
    closed = tuple(one for one in waiting if one is not None)
    stored = _store(before, closing_messages, now, joining)
    events: list[AgentEvent] = [InterruptClosed(turn_id=turn_id, interrupt_id=one) for one in closed]
    events += [ToolCallCompleted(turn_id=turn_id, tool_call=call) for call in changed]
    events.append(TurnCancelled(turn_id=turn_id))
    return SessionChange(
        record=_end(before.record, "cancelled", None, stored, AgentUsage()),
        status=SESSION_STATUSES[phase],
        next_step=WaitForUser(),
        new_messages=stored,
        tool_calls=changed,
        closed_interrupts=closed,
        events=tuple(events),
    )


def _move(view: TurnView, move: TurnMove) -> TurnPhase:
    return move_turn(find_turn_phase(view.record, view.tool_calls), move)


def _store(
    view: TurnView,
    messages: Sequence[FrameworkMessage],
    now: datetime,
    joining: Sequence[JoiningMessage] = (),
) -> tuple[AgentMessage, ...]:
    return number_joined(
        messages,
        joining,
        next_sequence=view.record.next_sequence,
        turn_id=view.turn.turn_id,
        now=now,
    )


def _go_on(
    record: SessionRecord, turn: AgentTurnState, stored: tuple[AgentMessage, ...], usage: AgentUsage
) -> SessionRecord:
    return msgspec.structs.replace(
        record,
        turn=turn,
        next_sequence=record.next_sequence + len(stored),
        usage=add_agent_usage(record.usage, usage),
    )


def _end(
    record: SessionRecord,
    outcome: TurnOutcome,
    error: str | None,
    stored: tuple[AgentMessage, ...],
    usage: AgentUsage,
) -> SessionRecord:
    return msgspec.structs.replace(
        record,
        turn=None,
        next_sequence=record.next_sequence + len(stored),
        usage=add_agent_usage(record.usage, usage),
        last_turn_outcome=outcome,
        last_turn_error=error,
    )


def _correct_text(messages: Sequence[FrameworkMessage], streamed_text: str) -> str | None:
    """Return the text that is stored where viewers were given another one.

    A runner that holds its answer back until the turn ends stores none now: then what was streamed stands.
    """
    said = [message.text or "" for message in messages if message.role == "assistant"]
    stored = replace_lone_surrogates("".join(said))
    return None if not said or stored == streamed_text else stored


def _require_run_state(run_state: str) -> str:
    if not run_state:
        raise RunnerContractError("framework_run_state is empty")
    return run_state
