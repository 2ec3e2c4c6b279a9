"""What a tool, or a task that is polled, leads to when it is not over: a question to a person, or a task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from dex import AsyncContext, StepDecision, go_to_many

from dex_agents.errors import ImageValidationError, RunnerContractError
from dex_agents.limits import MAX_TASK_REFERENCE_BYTES, MAX_TOOL_CONTINUATION_BYTES
from dex_agents.media.references import validate_image_references
from dex_agents.runner.outcomes import ToolExecutionResult, ToolInputRequested, ToolOutcome, ToolTaskStarted
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import close_interrupts, open_interrupt, write_tool_calls
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.transitions.interrupts import build_interrupt, open_interrupt_id
from dex_agents.session.transitions.tool_call_moves import move_tool_call
from dex_agents.tools.builtin import BuiltInArgumentsError, require_questions
from dex_agents.wire.events import InterruptClosed, InterruptOpened
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["FlowParts", "ask_for_tool", "require_result_images", "start_task"]


@dataclass(frozen=True)
class FlowParts:
    """What a Step of a session Flow is bound to.

    Attributes:
        runtime: Shared by the Flow's Steps.
        graph: Which Step follows which.
    """

    runtime: SessionRuntime
    graph: FlowGraph


def require_result_images(outcome: ToolOutcome) -> None:
    """Return unless a result has images that no media store could have named.

    Raises:
        RunnerContractError: It has; nothing was stored.
    """
    if isinstance(outcome, ToolExecutionResult) and outcome.images:
        try:
            validate_image_references(outcome.images)
        except ImageValidationError as error:
            raise RunnerContractError(f"ToolExecutionResult.{error}") from None


def ask_for_tool(
    parts: FlowParts,
    context: AsyncContext,
    step: ToolStepInput,
    call: AgentToolCall,
    asked: ToolInputRequested,
) -> StepDecision:
    """Ask a person what a tool wants to know; the tool goes on with the answers.

    Raises:
        RunnerContractError: The questions or the continuation break a rule.
    """
    try:
        questions = require_questions(asked.questions)
    except BuiltInArgumentsError as problem:
        raise RunnerContractError(f"ToolInputRequested: {problem}") from None
    _require_size("ToolInputRequested.continuation", asked.continuation, MAX_TOOL_CONTINUATION_BYTES)
    asking = move_tool_call(
        call,
        "ask_question",
        input_continuation=asked.continuation,
        input_rounds=call.input_rounds + 1,
        poll_failures=0,
    )
    interrupt = build_interrupt(
        asking, parts.runtime.clock(), questions=questions, deadline=parts.runtime.rules.interrupt_deadline
    )
    _open(parts.runtime, context, asking, interrupt, instead_of=open_interrupt_id(call))
    return go_to_many(parts.graph.await_interrupt(step, interrupt))


def start_task(
    parts: FlowParts,
    context: AsyncContext,
    step: ToolStepInput,
    call: AgentToolCall,
    task: ToolTaskStarted,
) -> StepDecision:
    """Poll a task when it says; the call is over when the task is.

    Raises:
        RunnerContractError: The task has no reference, or one that is too long.
    """
    if not task.task_reference:
        raise RunnerContractError("ToolTaskStarted.task_reference is empty")
    _require_size("ToolTaskStarted.task_reference", task.task_reference, MAX_TASK_REFERENCE_BYTES)
    now = parts.runtime.clock()
    was_polling = call.status == "polling"
    polling = move_tool_call(
        call,
        "poll_again" if was_polling else "start_task",
        task_reference=task.task_reference,
        poll_failures=0,
        started_at=call.started_at or now,
    )
    if not was_polling:
        _open(parts.runtime, context, polling, build_interrupt(polling, now))
    elif polling != call:
        write_tool_calls(context, (polling,))
    pause = task.poll_after_seconds if math.isfinite(task.poll_after_seconds) else 1.0
    return go_to_many(parts.graph.poll_tool_task(step, now + timedelta(seconds=max(pause, 1.0))))


def _open(
    runtime: SessionRuntime,
    context: AsyncContext,
    call: AgentToolCall,
    interrupt: AgentInterrupt,
    *,
    instead_of: str | None = None,
) -> None:
    with step_events(context, runtime, call.turn_id) as events:
        if instead_of is not None:
            events.write(InterruptClosed(interrupt_id=instead_of, tool_call=call))
            close_interrupts(context, (instead_of,))
        events.write(InterruptOpened(interrupt=interrupt, tool_call=call))
    write_tool_calls(context, (call,))
    open_interrupt(context, interrupt)


def _require_size(field: str, text: str, most: int) -> None:
    size = len(text.encode("utf-8", "replace"))
    if size > most:
        raise RunnerContractError(f"{field} has {size} bytes, the limit is {most}")
