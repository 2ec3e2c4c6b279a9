"""The Step that deletes what a session need not keep, between two turns."""

from __future__ import annotations

from dex import AsyncContext, StepDecision

from dex_agents.session.flow_graph import rest
from dex_agents.session.persistence import (
    MESSAGES,
    RECEIPTS,
    RECORD,
    TOOL_CALLS,
    chunk_instance,
    map_instance,
    message_receipt_id,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_loading import load_record
from dex_agents.session.transitions.interrupts import interrupt_id
from dex_agents.session.transitions.retention import plan_retention
from dex_agents.wire.step_inputs import IdleStepInput

__all__ = ["ApplyRetention"]


class ApplyRetention(SessionStep[IdleStepInput]):
    """Deletes messages, tool call records and receipts that the application does not want kept.

    A message whose receipt is gone would be accepted again under the same ID.

    Durability:
        Only writes state: a repeat writes the same. The next turn begins behind its commit, so nothing of a
        running turn is ever deleted.
    """

    def __init__(self, runtime: SessionRuntime) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime

    async def execute(self, context: AsyncContext, input: IdleStepInput) -> StepDecision:
        """Delete, then let the next turn begin."""
        chunks = [MESSAGES.get(context, key) for key in MESSAGES.get_all_instance_keys(context)]
        calls = [TOOL_CALLS.get(context, key) for key in TOOL_CALLS.get_all_instance_keys(context)]
        plan = plan_retention(load_record(context), self._runtime.options.retention, chunks, calls)
        for key in plan.deletes:
            MESSAGES.delete(context, chunk_instance(key))
        for chunk in plan.writes:
            MESSAGES.set(context, chunk_instance(chunk.messages[0].sequence), chunk)
        for tool_call_id in plan.tool_call_ids:
            TOOL_CALLS.delete(context, map_instance(tool_call_id))
            RECEIPTS.delete(context, map_instance(interrupt_id("approval", tool_call_id)))
        for message_id in plan.message_ids:
            RECEIPTS.delete(context, map_instance(message_receipt_id(message_id)))
        RECORD.set(context, plan.record)
        return rest(context)
