"""What a run looks like from outside at one moment, for tools that are no Workers."""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.requests import build_channel_message
from dex_agents.engine.state import Run, StepExecution


def build_flow_state(run: Run) -> pb.GetFlowStateResponse:
    """Build the state of a run, but for its Attributes."""
    response = pb.GetFlowStateResponse(
        flow_config=run.config, completed_steps=run.outputs, sticky_app_worker_id=run.sticky_worker
    )
    for execution in run.executions.values():
        _fill_execution(response.active_step_executions.add(), execution)
    for channel, messages in run.channels.items():
        response.pending_channel_messages[channel].messages.extend(
            build_channel_message(channel, message) for message in messages
        )
    return response


def _fill_execution(state: pb.ActiveStepExecutionState, execution: StepExecution) -> None:
    is_waiting = execution.phase == "waiting"
    state.step_execution_id = execution.execution_id
    state.from_step_execution_id = execution.origin
    state.step_type = execution.step_type
    state.phase = pb.ACTIVE_STEP_PHASE_WAITING if is_waiting else pb.ACTIVE_STEP_PHASE_ACTIVE
    state.movement.CopyFrom(execution.movement)
    state.step_execution_locals.extend(execution.step_locals.values())
    if execution.last_failure is not None:
        state.last_failure_info.CopyFrom(execution.last_failure)
    condition = execution.condition
    if condition is None:
        return
    waiting = state.waiting_condition
    waiting.waiting_condition_type = condition.waiting_condition_type
    waiting.timer_conditions.extend(condition.timer_conditions)
    waiting.channel_conditions.extend(condition.channel_conditions)
    waiting.condition_combinations.extend(condition.condition_combinations)
    for index, (declared, timer) in enumerate(zip(condition.timer_conditions, execution.timers, strict=True)):
        state.timers.add(
            condition_id=declared.condition_id,
            firing_unix_timestamp_seconds=int(timer.fire_at),
            status=timer.status,
        )
        if timer.is_over:
            state.completed_conditions.completed_timer_conditions[index] = timer.status
