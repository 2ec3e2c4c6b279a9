"""Steps that wait before a call may run: for a person, and for the ordered write before it."""

from __future__ import annotations

from typing import Any

from dex import AsyncContext, ChannelMap, Context, StepDecision, Wait, dead_end, go_to_many

from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import EARLIER_WRITES, TOOL_DECISIONS, map_instance
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import close_interrupts, commit_finished_call, write_tool_calls
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_loading import load_tool_call
from dex_agents.session.transitions.tool_calls import (
    apply_approval,
    approval_interrupt_id,
    release_tool_call,
    skip_tool_call,
)
from dex_agents.wire.events import InterruptClosed, ToolCallCompleted
from dex_agents.wire.step_inputs import ToolStepInput

__all__ = ["AwaitEarlierWrite", "AwaitToolApproval"]


class AwaitToolApproval(SessionStep[ToolStepInput]):
    """Waits, for as long as it takes, until a person decides or the question falls away.

    Durability:
        The decision was committed by whoever made it; applying it and scheduling what follows is one commit.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: ToolStepInput) -> Wait:
        """Wait for a decision on this call."""
        return Wait.until(TOOL_DECISIONS.for_one(map_instance(input.tool_call_id)))

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Apply the decision."""
        instance = map_instance(input.tool_call_id)
        (decision,) = TOOL_DECISIONS.results(context, instance)
        call = load_tool_call(context, input.tool_call_id)
        outcome = apply_approval(call, decision, follows_write=input.follows_write, now=self._runtime.clock())
        approval = outcome.tool_call.approval
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(
                InterruptClosed(
                    interrupt_id=approval_interrupt_id(call.tool_call_id),
                    decision=None if approval is None else approval.decision,
                )
            )
            if outcome.then == "final":
                events.write(ToolCallCompleted(tool_call=outcome.tool_call))
        if outcome.then == "final":
            close_interrupts(context, (approval_interrupt_id(call.tool_call_id),))
            _drop_pending(context, EARLIER_WRITES, instance)
            commit_finished_call(context, input, outcome.tool_call, failed_write_id=decision.failed_write_id)
            return dead_end()
        write_tool_calls(context, (outcome.tool_call,))
        if outcome.then == "wait":
            return go_to_many(self._graph.await_earlier_write(input))
        return go_to_many(self._graph.run_tool(input, call.effect))


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
        commit_finished_call(context, input, skipped, failed_write_id=earlier.failed_write_id)
        return dead_end()


def _drop_pending(context: Context, channels: ChannelMap[Any], instance: str) -> None:
    # A failed write tells both waits of the next one; the wait that was not there leaves its message behind.
    for message in channels.pending_messages(context, instance):
        channels.delete(context, instance, message.message_id)
