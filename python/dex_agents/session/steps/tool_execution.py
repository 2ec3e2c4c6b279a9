"""What a runner is given to run, poll, look up or cancel one tool call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dex import AsyncContext

from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["build_execution"]


def build_execution(
    context: AsyncContext,
    call: AgentToolCall,
    events: AgentEventWriter,
    *,
    heartbeat: Callable[[str], Awaitable[None]],
    cancelled: asyncio.Event,
) -> DeferredToolExecution:
    """Return one call as a runner sees it in a Step attempt.

    Args:
        context: The attempt.
        call: The record as committed.
        events: Speaks to live viewers.
        heartbeat: Keeps the attempt alive.
        cancelled: Set when the turn is cancelled on this Worker.
    """
    has_asked = call.input_rounds > 0
    return DeferredToolExecution(
        flow_id=context.flow_id,
        turn_id=call.turn_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        arguments=call.arguments_to_run,
        effect=call.effect,
        attempt=context.attempt,
        idempotency_key=f"{context.flow_id}/{call.turn_id}/{call.tool_call_id}",
        events=events,
        heartbeat=heartbeat,
        cancelled=cancelled,
        tool_source_reference=call.tool_source_reference,
        answers=dict(call.input_answers),
        continuation=call.input_continuation if has_asked else None,
        task_reference=call.task_reference,
    )
