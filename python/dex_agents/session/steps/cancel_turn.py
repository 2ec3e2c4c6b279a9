"""The Step that ends a turn because a person wished so."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from dex import AsyncContext, ChannelMap, Context, StepDecision, Timer, Wait, dead_end, go_to_many

from dex_agents import texts
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import (
    EARLIER_WRITES,
    FINISHED_CALLS,
    TOOL_DECISIONS,
    response_instance,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.state import TurnView
from dex_agents.session.steps.closing_messages import closing_messages
from dex_agents.session.steps.commit import commit_change
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.joining import build_steering
from dex_agents.session.steps.remote_tasks import cancel_remote_task
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_loading import load_record, load_tool_call, load_turn
from dex_agents.session.transitions.turns import cancel_turn, cancelled_tool_calls
from dex_agents.wire.step_inputs import TurnStepInput

__all__ = ["CancelTurn"]

_TURN_CHANNELS: Final[tuple[ChannelMap[Any], ...]] = (FINISHED_CALLS, TOOL_DECISIONS, EARLIER_WRITES)


class CancelTurn(SessionStep[TurnStepInput]):
    """Waits a while for running calls to end with a known result, then ends the turn.

    The command that schedules it has stopped the turn's other Steps in the same commit.

    Durability:
        Only writes state: a repeat writes the same. Calls that were never sent are recorded `not_run`; a
        write that was still running is recorded `outcome_unknown`.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: TurnStepInput) -> Wait:
        """Wait for the running calls, as long as the grace lasts."""
        self._runtime.signal_cancel(context.flow_id)
        turn = load_record(context).turn
        if input.is_grace_over or turn is None or turn.number != input.turn_number:
            return Wait.skip_immediately()
        calls = [load_tool_call(context, one) for one in turn.waiting_call_ids]
        running = sum(call.status == "running" for call in calls)
        if not running:
            return Wait.skip_immediately()
        instance = response_instance(turn.number, turn.response_index)
        reports = FINISHED_CALLS.size(context, instance) + running
        return Wait.any_of(
            FINISHED_CALLS.for_n(instance, reports),
            Timer.by_duration(self._runtime.options.cancel_grace),
        )

    async def execute(self, context: AsyncContext, input: TurnStepInput) -> StepDecision:
        """End the turn."""
        before = load_turn(context, input.turn_number)
        if before is None:
            return dead_end()
        if not input.is_grace_over:
            # A result may be on its way. None comes after this commit, so the next execution sees the truth.
            _drop_signals(context)
            again = go_to_many(self._graph.cancel_turn(before.turn, is_grace_over=True))
            return again.with_canceling_steps(*self._graph.tool_steps, *self._graph.steps_of_a_turn)
        for call in before.tool_calls:
            if not call.is_final:
                await cancel_remote_task(self._runtime, context, call)
        return self._end(context, before)

    def _end(self, context: AsyncContext, before: TurnView) -> StepDecision:
        now = self._runtime.clock()
        after = cancelled_tool_calls(before, now)
        closing = closing_messages(self._runtime, after, texts.TURN_CANCELLED_NOTE)
        inbox = load_inbox(context)
        steering = build_steering(inbox, self._runtime.runner)
        change = cancel_turn(before, after, closing, now, joining=steering.messages)
        turn = before.turn
        with step_events(context, self._runtime, turn.turn_id, turn.response_index) as events:
            if turn.response_index == 0:
                events.announce_turn(before, for_good=True)
            # They would have joined the next model call: a snapshot of the turn does not hold them yet.
            for event in steering.events:
                events.write(msgspec.structs.replace(event, response_index=turn.response_index + 1))
            events.write_all(change.events)
        left = inbox.take_joining(context, settled=False)
        record = commit_change(context, change, loaded_messages=before.messages, inbox=left)
        return self._graph.follow(context, change, record)


def _drop_signals(context: AsyncContext) -> None:
    """Remove what was said to Steps that are stopped now; only who said it matters, never what."""
    for channels in _TURN_CHANNELS:
        for instance in channels.get_all_instance_keys(context):
            for message in channels.pending_messages(context, instance):
                channels.delete(context, instance, message.message_id)
