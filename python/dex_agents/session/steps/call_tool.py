"""Steps in which a tool runs, and those that record what is known when such a Step failed for good."""

from __future__ import annotations

from dex import AsyncContext, StepDecision, dead_end, go_to_many

from dex_agents.errors import RunnerContractError, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.runner.contract import ReconcilesToolCalls
from dex_agents.runner.outcomes import (
    ToolExecutionResult,
    ToolInputRequested,
    ToolOutcome,
    ToolReconciliation,
    ToolTaskStarted,
)
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.event_stream import StepEvents, step_events
from dex_agents.session.steps.failures import describe_failure
from dex_agents.session.steps.finished_calls import finish_call
from dex_agents.session.steps.liveness import heartbeats
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.tool_execution import build_execution
from dex_agents.session.steps.tool_outcomes import (
    FlowParts,
    ask_for_tool,
    require_result_images,
    start_task,
)
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.steps.turn_loading import load_tool_call
from dex_agents.session.transitions.tool_calls import (
    cancel_tool_call,
    exhausted_tool_call,
    fail_tool_call,
    lose_tool_call,
    reconcile_tool_call,
    succeed_tool_call,
)
from dex_agents.wire.events import ToolCallCompleted, ToolCallStarted
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["CallSingleAttemptTool", "CallTool", "ReconcileToolCall", "RecordToolFailure"]


class _ToolStep(SessionStep[ToolStepInput]):
    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    async def _run(self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall) -> StepDecision:
        if is_cancelled(context, step.turn_number):
            # The Step was scheduled before the cancellation and is entered after it.
            left = cancel_tool_call(call, self._runtime.clock(), was_started=context.attempt > 1)
            return self._finish(context, step, left)
        clock = self._runtime.clock
        started_at = clock()
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(
                ToolCallStarted(
                    tool_call_id=call.tool_call_id,
                    tool_name=call.tool_name,
                    input_rounds=call.input_rounds,
                )
            )
            try:
                outcome = await self._execute(context, call, events)
            except ToolExecutionError as error:
                final = fail_tool_call(
                    call, str(error), clock(), attempt=context.attempt, started_at=started_at
                )
                return self._finish(context, step, final, events)
            except ToolOutcomeUnknownError as error:
                return self._lose(context, step, call, str(error), events)
            match outcome:
                case ToolExecutionResult():
                    final = succeed_tool_call(
                        call,
                        outcome.output,
                        attempt=context.attempt,
                        started_at=started_at,
                        now=clock(),
                        images=outcome.images,
                    )
                    return self._finish(context, step, final, events)
                case ToolInputRequested():
                    return ask_for_tool(FlowParts(self._runtime, self._graph), context, step, call, outcome)
                case _:
                    return start_task(FlowParts(self._runtime, self._graph), context, step, call, outcome)

    async def _execute(self, context: AsyncContext, call: AgentToolCall, events: StepEvents) -> ToolOutcome:
        with self._runtime.cancel_signal(context.flow_id) as cancelled:
            async with heartbeats(context) as pulse:
                execution = build_execution(context, call, events, heartbeat=pulse.beat, cancelled=cancelled)
                return _require_outcome(await self._runtime.runner.execute_deferred_tool_call(execution))

    def _lose(
        self,
        context: AsyncContext,
        step: ToolStepInput,
        call: AgentToolCall,
        reason: str,
        events: StepEvents | None = None,
    ) -> StepDecision:
        """Record an unknown outcome, unless the tool can look up what became of the call."""
        if call.reconcilable and step.unknown_because is None:
            return go_to_many(self._graph.reconcile_tool_call(step, reason))
        lost = lose_tool_call(call, reason, self._runtime.clock(), attempt=context.attempt)
        return self._finish(context, step, lost, events)

    def _finish(
        self,
        context: AsyncContext,
        step: ToolStepInput,
        final: AgentToolCall,
        events: StepEvents | None = None,
    ) -> StepDecision:
        if events is None:
            with step_events(context, self._runtime, final.turn_id) as own:
                own.write(ToolCallCompleted(tool_call=final))
        else:
            events.write(ToolCallCompleted(tool_call=final))
        return finish_call(self._graph, context, step, final)


class CallTool(_ToolStep):
    """Runs a `read` or an `idempotent_write`.

    Durability:
        A failed or lost attempt is repeated with the same idempotency key, at most
        `limits.MAX_TOOL_CALL_ATTEMPTS` times in all; then the call is recorded `failed`, unless the tool can
        look up what became of it.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Run the call."""
        call = load_tool_call(context, input.tool_call_id)
        return dead_end() if call.is_final else await self._run(context, input, call)


class CallSingleAttemptTool(_ToolStep):
    """Runs a `non_idempotent_write` or an `unclassified` call, at most once.

    Durability:
        The engine makes the start of the attempt durable before the tool is entered and never starts a second
        one. An attempt that failed without a known outcome, or was lost, is recorded `outcome_unknown`,
        unless the tool can look up what became of the call. A tool that asks a person runs again with the
        answers: its earlier run ended with the question.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Run the call, unless it may have run before."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        if context.attempt > 1:
            # One attempt is what the Step asks for; an engine that grants another must not double a write.
            return self._lose(context, input, call, "an earlier attempt was lost")
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
        if input.unknown_because is not None:
            # The look-up failed for good: what was unknown before it still is.
            return self._lose(context, input, call, input.unknown_because)
        reason = describe_failure(context.recovery_error)
        if call.reconcilable:
            return self._lose(context, input, call, reason)
        attempts = MAX_TOOL_CALL_ATTEMPTS if call.effect.may_run_again else 1
        return self._finish(
            context, input, exhausted_tool_call(call, reason, attempts, self._runtime.clock())
        )


class ReconcileToolCall(_ToolStep):
    """Asks the tool what became of a call whose outcome is unknown, before that is recorded.

    Durability:
        The look-up reads, so a failed or lost attempt is repeated, at most `limits.MAX_TOOL_CALL_ATTEMPTS`
        times in all; then the outcome stays unknown.
    """

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Look it up once."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        reason = input.unknown_because or "its result was lost"
        runner = self._runtime.runner
        if not isinstance(runner, ReconcilesToolCalls):
            # Another version of the application declared the tool.
            return self._lose(context, input, call, reason)
        with step_events(context, self._runtime, call.turn_id) as events:
            with self._runtime.cancel_signal(context.flow_id) as cancelled:
                async with heartbeats(context) as pulse:
                    found = _require_reconciliation(
                        await runner.reconcile_tool_call(
                            build_execution(context, call, events, heartbeat=pulse.beat, cancelled=cancelled)
                        )
                    )
            return self._finish(
                context, input, reconcile_tool_call(call, found, reason, self._runtime.clock()), events
            )


def _require_outcome(outcome: object) -> ToolOutcome:
    # The contract is structural, so a runner without type checks can hand over anything.
    if not isinstance(outcome, ToolExecutionResult | ToolInputRequested | ToolTaskStarted):
        raise RunnerContractError(f"execute_deferred_tool_call returned {type(outcome).__name__}")
    require_result_images(outcome)
    return outcome


def _require_reconciliation(found: object) -> ToolReconciliation:
    if not isinstance(found, ToolReconciliation):
        raise RunnerContractError(f"reconcile_tool_call returned {type(found).__name__}")
    return found
