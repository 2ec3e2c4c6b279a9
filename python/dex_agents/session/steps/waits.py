"""Steps that wait before a call may go on: for a person, a point in time, or the ordered write before it.

What ends a wait is a message on the call's Channel, which whoever ends it publishes, or the time. A wait that
begins after a cancellation or a steering message was accepted is over at once: the command could not know of
it. Both sides hold the turn gate, so exactly one of them sees the other.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from datetime import timedelta
from typing import Any, Final

from dex import AsyncContext, ChannelMap, Context, StepDecision, Timer, Wait, dead_end, go_to_many

from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import (
    EARLIER_WRITES,
    TOOL_DECISIONS,
    map_instance,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import close_interrupts, open_interrupt, write_tool_calls
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.steps.finished_calls import finish_call
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.remote_tasks import cancel_remote_task
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.steps.turn_loading import load_tool_call
from dex_agents.session.transitions.interrupts import (
    InterruptEnd,
    build_interrupt,
    end_approval,
    end_question,
    end_wait,
    open_interrupt_id,
)
from dex_agents.session.transitions.tool_calls import cancel_tool_call, release_tool_call, skip_tool_call
from dex_agents.tools.builtin import ASK_USER
from dex_agents.wire.events import InterruptClosed, InterruptOpened, ToolCallCompleted
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["AwaitEarlierWrite", "AwaitQuestionAnswer", "AwaitToolApproval", "AwaitWaitEnd"]

_LONGEST_TIMER: Final = timedelta(days=3650)


class _InterruptStep(SessionStep[ToolStepInput]):
    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: ToolStepInput) -> Wait:
        """Wait until the interrupt ends."""
        if is_cancelled(context, input.turn_number) or load_inbox(context).steering:
            return Wait.skip_immediately()
        decision = TOOL_DECISIONS.for_one(map_instance(input.tool_call_id))
        if input.until is None:
            return Wait.until(decision)
        seconds = (input.until - self._runtime.clock()).total_seconds()
        # The engine counts whole seconds; a person never has less time than was promised.
        left = min(timedelta(seconds=max(math.ceil(seconds), 0)), _LONGEST_TIMER)
        return Wait.any_of(decision, Timer.by_duration(left))

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Apply what ended the wait."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        decision = _take_decision(context, input.tool_call_id)
        if decision is None and is_cancelled(context, input.turn_number):
            end = InterruptEnd(cancel_tool_call(call, self._runtime.clock()), "final")
        elif decision is None and not context.has_timer_fired():
            # Nothing but a steering message lets the wait be over at once.
            decision = ToolDecision(steered=True)
            end = self._end(call, input, decision)
        else:
            end = self._end(call, input, decision)
        if end.then == "final" and call.task_reference is not None:
            await cancel_remote_task(self._runtime, context, call)
        self._close(context, call, end)
        if end.then == "final":
            _drop_pending(context, EARLIER_WRITES, map_instance(input.tool_call_id))
            failed = None if decision is None else decision.failed_write_id
            return finish_call(self._graph, context, input, end.tool_call, failed_write_id=failed)
        write_tool_calls(context, (end.tool_call,))
        return self._go_on(input, end)

    @abstractmethod
    def _end(self, call: AgentToolCall, step: ToolStepInput, decision: ToolDecision | None) -> InterruptEnd:
        """Decide; without a decision the time has come."""

    def _close(self, context: AsyncContext, call: AgentToolCall, end: InterruptEnd) -> None:
        closed = open_interrupt_id(call) or ""
        approval = end.tool_call.approval if call.status == "waiting_for_approval" else None
        goes_on = None if end.then == "final" else end.tool_call
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(
                InterruptClosed(
                    interrupt_id=closed,
                    decision=None if approval is None else approval.decision,
                    tool_call=goes_on,
                )
            )
            if end.then == "final":
                events.write(ToolCallCompleted(tool_call=end.tool_call))
            if end.then == "poll":
                waiting = build_interrupt(end.tool_call, self._runtime.clock())
                events.write(InterruptOpened(interrupt=waiting, tool_call=end.tool_call))
                open_interrupt(context, waiting)
        close_interrupts(context, (closed,))

    def _go_on(self, step: ToolStepInput, end: InterruptEnd) -> StepDecision:
        match end.then:
            case "wait":
                return go_to_many(self._graph.await_earlier_write(step))
            case "poll":
                return go_to_many(self._graph.poll_tool_task(step, self._runtime.clock()))
            case _:
                return go_to_many(self._graph.run_tool(step, end.tool_call.effect))


class AwaitToolApproval(_InterruptStep):
    """Waits until a person decides, the deadline passes, or the question falls away.

    Durability:
        The decision was committed by whoever made it; applying it and scheduling what follows is one commit.
    """

    def _end(self, call: AgentToolCall, step: ToolStepInput, decision: ToolDecision | None) -> InterruptEnd:
        return end_approval(call, decision, follows_write=step.follows_write, now=self._runtime.clock())


class AwaitQuestionAnswer(_InterruptStep):
    """Waits until a person answers, the deadline passes, or the question falls away.

    Durability:
        The answers were committed by whoever gave them; applying them and scheduling what follows is one
        commit.
    """

    def _end(self, call: AgentToolCall, step: ToolStepInput, decision: ToolDecision | None) -> InterruptEnd:
        by_session = call.tool_name == ASK_USER.name and call.tool_name in self._runtime.rules.built_in_tools
        return end_question(
            call,
            step.questions,
            decision,
            asked_by_session=by_session and call.input_continuation is None,
            now=self._runtime.clock(),
        )


class AwaitWaitEnd(_InterruptStep):
    """Waits until the time of a `durable_wait` has come, or a steering message ends it early.

    Durability:
        The time is an absolute one, so a restart neither shortens nor repeats the wait.
    """

    def _end(self, call: AgentToolCall, step: ToolStepInput, decision: ToolDecision | None) -> InterruptEnd:
        return InterruptEnd(end_wait(call, decision, self._runtime.clock()), "final")


class AwaitEarlierWrite(SessionStep[ToolStepInput]):
    """Waits until the ordered write before this one has succeeded; does not run this one otherwise.

    Durability:
        The earlier write reports in the commit of its final record.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: ToolStepInput) -> Wait:
        """Wait for the report of the earlier write."""
        return Wait.until(EARLIER_WRITES.for_one(map_instance(input.tool_call_id)))

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Run the call or skip it."""
        instance = map_instance(input.tool_call_id)
        (earlier,) = EARLIER_WRITES.results(context, instance)
        call = load_tool_call(context, input.tool_call_id)
        if earlier.failed_write_id is None:
            write_tool_calls(context, (release_tool_call(call),))
            return go_to_many(self._graph.run_tool(input, call.effect))
        skipped = skip_tool_call(call, earlier.failed_write_id, self._runtime.clock())
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(ToolCallCompleted(tool_call=skipped))
        _drop_pending(context, TOOL_DECISIONS, instance)
        return finish_call(self._graph, context, input, skipped, failed_write_id=earlier.failed_write_id)


def _take_decision(context: AsyncContext, tool_call_id: str) -> ToolDecision | None:
    # An answer that came in just as the time did counts: the person was told that it does. What the earlier
    # write has said is looked at too: what is loaded of two Channels may come in each other's place.
    instance = map_instance(tool_call_id)
    decisions = list(TOOL_DECISIONS.results(context, instance))
    was_told = bool(decisions)
    for message in TOOL_DECISIONS.pending_messages(context, instance):
        TOOL_DECISIONS.delete(context, instance, message.message_id)
        decisions.append(message.value)
        was_told = True
    if not was_told:
        return None
    decisions += [message.value for message in EARLIER_WRITES.pending_messages(context, instance)]
    answered = (one for one in decisions if one.approval is not None or one.answers is not None)
    return next(answered, next((one for one in decisions if one != ToolDecision()), None))


def _drop_pending(context: AsyncContext, channels: ChannelMap[Any], instance: str) -> None:
    # A failed write tells both waits of the next one; the wait that was not there leaves its message behind.
    for message in channels.pending_messages(context, instance):
        channels.delete(context, instance, message.message_id)
