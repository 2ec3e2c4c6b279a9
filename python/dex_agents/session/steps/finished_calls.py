"""The end of a tool call: its final record, those who wait for it, and what follows it."""

from __future__ import annotations

from dex import AsyncContext, StepDecision, dead_end, go_to_many

from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import (
    EARLIER_WRITES,
    FINISHED_CALLS,
    TOOL_DECISIONS,
    map_instance,
    response_instance,
)
from dex_agents.session.steps.commit import close_interrupts, write_tool_calls
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.steps.turn_loading import load_record
from dex_agents.session.transitions.interrupts import interrupt_id
from dex_agents.wire.signals import FinishedToolCall, ToolDecision
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["finish_call", "report_finished_call"]


def finish_call(
    graph: FlowGraph,
    context: AsyncContext,
    step: ToolStepInput,
    call: AgentToolCall,
    *,
    failed_write_id: str | None = None,
) -> StepDecision:
    """Write a final record, tell those who wait, and return what follows.

    A call that was alone in its response leads to the model at once. Those who wait for the others are the
    join and, for an ordered write, the write that comes next.

    Args:
        graph: Which Step follows which.
        context: The Step attempt.
        step: The call's place in its response.
        call: Its final record.
        failed_write_id: For a skipped write: the one because of which it was skipped.
    """
    write_tool_calls(context, (call,))
    if step.next_write_id is not None:
        _tell_next_write(context, step.next_write_id, call, failed_write_id)
    record = load_record(context)
    is_running = record.turn is not None and record.turn.number == step.turn_number
    if step.is_alone and is_running and not is_cancelled(context, step.turn_number):
        return go_to_many(graph.call_model(record))
    # The join takes the report, or the Step that ends the turn.
    report_finished_call(context, step.turn_number, step.response_index, call.tool_call_id)
    return dead_end()


def report_finished_call(
    context: AsyncContext, turn_number: int, response_index: int, tool_call_id: str
) -> None:
    """Tell who waits for the calls of a response that one of them is final."""
    FINISHED_CALLS.publish(
        context, response_instance(turn_number, response_index), FinishedToolCall(tool_call_id)
    )


def _tell_next_write(
    context: AsyncContext, next_write_id: str, call: AgentToolCall, failed_write_id: str | None
) -> None:
    following = map_instance(next_write_id)
    if call.status == "succeeded":
        EARLIER_WRITES.publish(context, following, ToolDecision())
    else:
        # The next write waits for a person or for this one; whichever it is, it need not wait any more.
        failed = failed_write_id or call.tool_call_id
        EARLIER_WRITES.publish(context, following, ToolDecision(failed_write_id=failed))
        TOOL_DECISIONS.publish(context, following, ToolDecision(failed_write_id=failed))
        # Nothing is left to decide, so an answer that comes before that wait has ended must not be accepted.
        close_interrupts(context, (interrupt_id("approval", next_write_id),))
