"""Steps in which a tool runs, and the one that records what is known when such a Step failed for good."""

from __future__ import annotations

from dex import AsyncContext, StepDecision, dead_end

from dex_agents.errors import RunnerContractError, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.runner.outcomes import ToolExecutionResult
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.session.persistence import TURN_GATE, get_stored
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import commit_finished_call
from dex_agents.session.steps.event_stream import StepEvents, step_events
from dex_agents.session.steps.failures import describe_failure
from dex_agents.session.steps.liveness import heartbeats
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_loading import load_tool_call
from dex_agents.session.transitions.tool_calls import (
    cancel_tool_call,
    exhausted_tool_call,
    fail_tool_call,
    lose_tool_call,
    succeed_tool_call,
)
from dex_agents.wire.events import ToolCallCompleted, ToolCallStarted
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["CallSingleAttemptTool", "CallTool", "RecordToolFailure"]


class _ToolStep(SessionStep[ToolStepInput]):
    def __init__(self, runtime: SessionRuntime) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime

    async def _run(self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall) -> StepDecision:
        cancelled = get_stored(TURN_GATE, context)
        if cancelled is not None and cancelled.number == step.turn_number:
            # The Step was scheduled before the cancellation and is entered after it.
            return self._leave(context, step, call)
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(ToolCallStarted(tool_call_id=call.tool_call_id, tool_name=call.tool_name))
            final = await self._outcome(context, call, events)
            events.write(ToolCallCompleted(tool_call=final))
        commit_finished_call(context, step, final)
        return dead_end()

    def _leave(self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall) -> StepDecision:
        left = cancel_tool_call(call, self._runtime.clock(), was_started=context.attempt > 1)
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(ToolCallCompleted(tool_call=left))
        commit_finished_call(context, step, left)
        return dead_end()

    async def _outcome(self, context: AsyncContext, call: AgentToolCall, events: StepEvents) -> AgentToolCall:
        clock, attempt = self._runtime.clock, context.attempt
        started_at = clock()
        with self._runtime.cancel_signal(context.flow_id) as cancelled:
            async with heartbeats(context) as pulse:
                execution = DeferredToolExecution(
                    flow_id=context.flow_id,
                    turn_id=call.turn_id,
                    tool_call_id=call.tool_call_id,
                    tool_name=call.tool_name,
                    arguments=call.arguments_to_run,
                    effect=call.effect,
                    attempt=attempt,
                    idempotency_key=f"{context.flow_id}/{call.turn_id}/{call.tool_call_id}",
                    events=events,
                    heartbeat=pulse.beat,
                    cancelled=cancelled,
                    tool_source_reference=call.tool_source_reference,
                )
                try:
                    result = await self._runtime.runner.execute_deferred_tool_call(execution)
                except ToolExecutionError as error:
                    return fail_tool_call(call, str(error), clock(), attempt=attempt, started_at=started_at)
                except ToolOutcomeUnknownError as error:
                    return lose_tool_call(call, str(error), clock(), attempt=attempt, started_at=started_at)
        output = _require_result(result).output
        return succeed_tool_call(call, output, attempt=attempt, started_at=started_at, now=clock())


class CallTool(_ToolStep):
    """Runs a `read` or an `idempotent_write`.

    Durability:
        A failed or lost attempt is repeated with the same idempotency key, at most
        `limits.MAX_TOOL_CALL_ATTEMPTS` times in all; then the call is recorded `failed`.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Run the call."""
        call = load_tool_call(context, input.tool_call_id)
        return dead_end() if call.is_final else await self._run(context, input, call)


class CallSingleAttemptTool(_ToolStep):
    """Runs a `non_idempotent_write` or an `unclassified` call, at most once.

    Durability:
        The engine makes the start of the attempt durable before the tool is entered and never starts a second
        one. An attempt that failed without a known outcome, or was lost, is recorded `outcome_unknown`.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Run the call, unless it may have run before."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        if context.attempt > 1:
            # One attempt is what the Step asks for; an engine that grants another must not double a write.
            commit_finished_call(
                context, input, lose_tool_call(call, "an earlier attempt was lost", self._runtime.clock())
            )
            return dead_end()
        return await self._run(context, input, call)


class RecordToolFailure(_ToolStep):
    """Records a call whose tool Step failed for good.

    Durability:
        Only writes state: a repeat writes the same.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Record what is known."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        attempts = MAX_TOOL_CALL_ATTEMPTS if call.effect.may_run_again else 1
        reason = describe_failure(context.recovery_error)
        final = exhausted_tool_call(call, reason, attempts, self._runtime.clock())
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(ToolCallCompleted(tool_call=final))
        commit_finished_call(context, input, final)
        return dead_end()


def _require_result(result: object) -> ToolExecutionResult:
    # The contract is structural, so a runner without type checks can hand over anything.
    if not isinstance(result, ToolExecutionResult):
        raise RunnerContractError(f"execute_deferred_tool_call returned {type(result).__name__}")
    return result
