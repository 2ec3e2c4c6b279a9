"""Tasks on other servers: polled until they end, cancelled when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import logging
import math
from datetime import timedelta
from typing import Final

from dex import AsyncContext, Context, StepDecision, Timer, Wait, dead_end, go_to_many

from dex_agents.errors import RunnerContractError, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.runner.contract import PollsToolTasks
from dex_agents.runner.outcomes import ToolExecutionResult, ToolInputRequested, ToolOutcome
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import close_interrupts, write_tool_calls
from dex_agents.session.steps.event_stream import step_events
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
from dex_agents.session.transitions.interrupts import open_interrupt_id
from dex_agents.session.transitions.tool_calls import (
    cancel_tool_call,
    fail_tool_call,
    give_up_task,
    lose_tool_call,
    miss_poll,
    succeed_tool_call,
)
from dex_agents.wire.events import InterruptClosed, ToolCallCompleted
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["PollToolTask", "cancel_remote_task"]

_log = logging.getLogger(__name__)

_CANCEL_SECONDS: Final = 10.0
"""A server that does not answer must not hold up the end of a turn."""

_POLL_SECONDS: Final = 60.0
_MISSED_POLL_PAUSE: Final = 5.0


class PollToolTask(SessionStep[ToolStepInput]):
    """Waits a while and asks a server how a task is getting on, again and again until it ends.

    Durability:
        Polling reads, so a repeat is harmless. A poll that fails delays the next one; after
        `limits.MAX_TASK_POLL_FAILURES` in a row the task is given up: recorded `failed` for a `read`,
        `outcome_unknown` otherwise.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: ToolStepInput) -> Wait:
        """Wait until the next poll is due."""
        if input.until is None or is_cancelled(context, input.turn_number):
            return Wait.skip_immediately()
        seconds = (input.until - self._runtime.clock()).total_seconds()
        return Wait.until(Timer.by_duration(timedelta(seconds=max(math.ceil(seconds), 0))))

    async def execute(self, context: AsyncContext, input: ToolStepInput) -> StepDecision:
        """Poll once."""
        call = load_tool_call(context, input.tool_call_id)
        if call.is_final:
            return dead_end()
        if is_cancelled(context, input.turn_number):
            await cancel_remote_task(self._runtime, context, call)
            return self._finish(context, input, call, cancel_tool_call(call, self._runtime.clock()))
        try:
            outcome = await self._poll(context, call)
        except ToolExecutionError as error:
            return self._finish(context, input, call, fail_tool_call(call, str(error), self._runtime.clock()))
        except ToolOutcomeUnknownError as error:
            return self._finish(context, input, call, lose_tool_call(call, str(error), self._runtime.clock()))
        except Exception as error:  # noqa: BLE001  # whatever it is, the server was not reached
            return self._miss(context, input, call, error)
        try:
            return self._follow(context, input, call, outcome)
        except RunnerContractError as error:
            return self._finish(context, input, call, give_up_task(call, str(error), self._runtime.clock()))

    async def _poll(self, context: AsyncContext, call: AgentToolCall) -> ToolOutcome:
        runner = self._runtime.runner
        if not isinstance(runner, PollsToolTasks):
            raise RunnerContractError("this session's runner cannot poll tasks")
        with (
            step_events(context, self._runtime, call.turn_id) as events,
            self._runtime.cancel_signal(context.flow_id) as cancelled,
        ):
            async with heartbeats(context) as pulse, asyncio.timeout(_POLL_SECONDS):
                return await runner.poll_tool_task(
                    build_execution(context, call, events, heartbeat=pulse.beat, cancelled=cancelled)
                )

    def _follow(
        self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall, outcome: ToolOutcome
    ) -> StepDecision:
        now = self._runtime.clock()
        require_result_images(outcome)
        if isinstance(outcome, ToolExecutionResult):
            final = succeed_tool_call(
                call,
                outcome.output,
                attempt=call.attempts,
                started_at=call.started_at,
                now=now,
                images=outcome.images,
            )
            return self._finish(context, step, call, final)
        if isinstance(outcome, ToolInputRequested):
            return ask_for_tool(FlowParts(self._runtime, self._graph), context, step, call, outcome)
        return start_task(FlowParts(self._runtime, self._graph), context, step, call, outcome)

    def _miss(
        self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall, error: Exception
    ) -> StepDecision:
        now = self._runtime.clock()
        missed = miss_poll(call)
        if missed is None:
            return self._finish(context, step, call, give_up_task(call, f"its server: {error}", now))
        _log.warning("a poll of the task of %s did not reach its server: %s", call.tool_call_id, error)
        write_tool_calls(context, (missed,))
        return go_to_many(self._graph.poll_tool_task(step, now + timedelta(seconds=_MISSED_POLL_PAUSE)))

    def _finish(
        self, context: AsyncContext, step: ToolStepInput, call: AgentToolCall, final: AgentToolCall
    ) -> StepDecision:
        closed = open_interrupt_id(call) or ""
        with step_events(context, self._runtime, call.turn_id) as events:
            events.write(InterruptClosed(interrupt_id=closed))
            events.write(ToolCallCompleted(tool_call=final))
        close_interrupts(context, (closed,))
        return finish_call(self._graph, context, step, final)


async def cancel_remote_task(runtime: SessionRuntime, context: AsyncContext, call: AgentToolCall) -> None:
    """Ask the server of a call's task to stop it; whatever comes of that, the call is over."""
    runner = runtime.runner
    if call.task_reference is None or not isinstance(runner, PollsToolTasks):
        return
    try:
        with (
            step_events(context, runtime, call.turn_id) as events,
            runtime.cancel_signal(context.flow_id) as cancelled,
        ):
            async with heartbeats(context) as pulse, asyncio.timeout(_CANCEL_SECONDS):
                await runner.cancel_tool_task(
                    build_execution(context, call, events, heartbeat=pulse.beat, cancelled=cancelled)
                )
    except Exception:  # noqa: BLE001  # the call is over either way
        _log.warning("the task of %s could not be cancelled", call.tool_call_id, exc_info=True)
