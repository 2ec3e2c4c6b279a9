"""The state machine of a Flow run: state and event in, new state and effects out.

No clock, no SQL, no await. A function changes the run it is given and records in the unit which rows that
writes and what has to happen once they are durable. It validates before it changes anything, so a
`ServiceError` leaves the run as it was.

=====================  =========================================  ==========================================
event                  condition                                  outcome
=====================  =========================================  ==========================================
run started            the Flow has a start Step                  execution in `wait_for`, or `execute` if it
skips `wait_for` result      a condition                                `waiting`, Timers fixed
`wait_for` result      no condition                               `execute`
change or Timer        a candidate of the condition holds         messages consumed, `execute`
`execute` result       next Steps                                 execution ends, successors start
`execute` result       close decision                             execution ends, run closes or will
attempt failed         the retry policy has an attempt left       next attempt after its delay
attempt failed         none left, failure policy proceeds         `execute` after `wait_for`, or the recovery
Step attempt failed         none left                                  run fails
RPC result             effects                                    applied; Steps may start and be canceled
stop, soft timeout     the run is open                            run closes, or the timeout handler starts
=====================  =========================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.closing import close_run, collect_output
from dex_agents.engine.conditions import build_results, build_timers, plan_wait, validate_condition
from dex_agents.engine.executions import end_execution, end_step_types, enter_execute, start_execution
from dex_agents.engine.failures import flow_not_found, invalid_argument
from dex_agents.engine.flow_retries import validate_flow_retry
from dex_agents.engine.history import (
    build_step_failure,
    describe_attribute_change,
    describe_deletions,
    describe_execute,
    describe_failure,
    describe_rpc,
    describe_start,
    describe_wait_for,
)
from dex_agents.engine.journal import EventKind
from dex_agents.engine.retries import AttemptFailure, plan_retry, read_retry_policy
from dex_agents.engine.state import TIMEOUT_HANDLER, Message, Run, StepExecution
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import is_null, read_blob_id, read_scalar, validate_step_type, validate_value
from dex_agents.engine.writes import (
    apply_attribute_writes,
    apply_deletions,
    apply_publications,
    take_messages,
    validate_attribute_writes,
    validate_deletions,
    validate_publications,
)

START_ORIGIN = "__start__"
RPC_ORIGIN_PREFIX = "__rpc/"


def start_run(run: Run, request: pb.StartFlowRequest, unit: Unit, now: float, *, delay: float = 0) -> None:
    """Open a run: initial Attributes, then the start Step, if the Flow has one.

    Args:
        run: A run without anything in it.
        request: Its start, which must be valid.
        unit: Where to record the changes.
        now: The current time.
        delay: Seconds before the start Step is due.
    """
    unit.touch(run)
    unit.put_run(run)
    unit.record(run, EventKind.FLOW_STARTED, now, detail=describe_start(request))
    apply_attribute_writes(run, request.flow_start_options.attributes, unit)
    if request.start_step_type:
        movement = pb.StepMovement(step_type=request.start_step_type)
        if request.HasField("step_input"):
            movement.step_input.CopyFrom(request.step_input)
        if request.HasField("step_options"):
            movement.step_options.CopyFrom(request.step_options)
        start_execution(run, movement, START_ORIGIN, unit, now, delay=delay)
    settle(run, unit, now)


def validate_start(request: pb.StartFlowRequest, unit: Unit) -> None:
    """Require a start request whose data can be stored.

    Raises:
        ServiceError: A field breaks a limit or a rule.
    """
    validate_attribute_writes(request.flow_start_options.attributes, unit)
    if request.start_step_type:
        validate_step_type(request.start_step_type, "start_step_type")
    if request.HasField("step_input"):
        validate_value(request.step_input, "step_input")
    if request.flow_start_options.HasField("retry_policy"):
        validate_flow_retry(request.flow_start_options.retry_policy)
    for field, seconds in (
        ("flow_timeout_seconds", request.flow_timeout_seconds),
        ("flow_start_delay_seconds", request.flow_start_options.flow_start_delay_seconds),
    ):
        if seconds < 0:
            raise invalid_argument(field, "must not be negative")


def apply_wait_for_result(
    run: Run, execution: StepExecution, result: pb.InvokeWaitForMethodResponse, unit: Unit, now: float
) -> None:
    """Apply what `wait_for` returned and begin to wait, or go on at once.

    Raises:
        ServiceError: The result breaks a rule; nothing was changed.
    """
    _validate_data(result, unit)
    if result.HasField("waiting_condition"):
        validate_condition(result.waiting_condition)
    unit.touch(run)
    unit.record(run, EventKind.WAIT_FOR_COMPLETED, now, execution, describe_wait_for(execution, result))
    _apply_data(run, result, unit)
    for entry in result.upsert_step_exe_locals:
        if entry.key in execution.step_locals:
            unit.discard(read_blob_id(execution.step_locals[entry.key].value))
        local = pb.KV(key=entry.key)
        local.value.CopyFrom(unit.store_value(entry.value))
        execution.step_locals[entry.key] = local
    if result.HasField("waiting_condition"):
        execution.condition = pb.WaitingCondition()
        execution.condition.CopyFrom(result.waiting_condition)
        execution.timers = build_timers(execution.condition, now)
        execution.phase = "waiting"
        execution.is_started = False
        unit.delete_failure(run, execution)
        unit.put_progress(run, execution)
        if execution.timers:
            unit.timers.append((run, execution))
    else:
        enter_execute(run, execution, pb.ConditionResults(), unit, now)
    settle(run, unit, now)


def apply_execute_result(
    run: Run, execution: StepExecution, result: pb.InvokeExecuteMethodResponse, unit: Unit, now: float
) -> None:
    """Apply what `execute` returned, end the execution and follow its decision.

    Raises:
        ServiceError: The result breaks a rule; nothing was changed.
    """
    _validate_data(result, unit)
    decision = result.step_decision
    _validate_movements(decision.next_steps)
    unit.touch(run)
    unit.record(run, EventKind.EXECUTE_COMPLETED, now, execution, describe_execute(execution, result))
    _apply_data(run, result, unit)
    if decision.cancel_step_types or decision.cancel_sibling_step_types:
        siblings = set(decision.cancel_sibling_step_types)
        everywhere = set(decision.cancel_step_types)
        for other in list(run.executions.values()):
            is_sibling = other.origin == execution.origin and other.step_type in siblings
            if other is not execution and (is_sibling or other.step_type in everywhere):
                end_execution(run, other, unit)
    del run.executions[execution.number]
    unit.delete_execution(run, execution)
    _follow_decision(run, execution, decision, unit, now)
    settle(run, unit, now)


def apply_rpc_result(
    run: Run,
    request: pb.InvokeRPCRequest,
    result: pb.InvokeWorkerRPCResponse,
    unit: Unit,
    now: float,
    *,
    is_strict: bool,
) -> None:
    """Apply the effects of an RPC.

    Args:
        run: The run it was called on.
        request: The call.
        result: What the handler returned.
        unit: Where to record the changes.
        now: The current time.
        is_strict: Deleting a message that is gone fails the call, as for transactional and locking RPCs.

    Raises:
        ServiceError: The run closed meanwhile, a message is gone or the result breaks a rule; nothing was
            changed.
    """
    if not run.is_running:
        raise flow_not_found(run.flow_id)
    if result.step_decision.HasField("close_decision"):
        raise invalid_argument("step_decision", "an RPC cannot close its flow")
    _validate_data(result, unit)
    _validate_movements(result.step_decision.next_steps)
    if is_strict:
        validate_deletions(run, result.delete_from_channel)
    unit.touch(run)
    unit.record(run, EventKind.RPC_COMPLETED, now, detail=describe_rpc(request, result))
    _apply_data(run, result, unit)
    end_step_types(run, result.step_decision.cancel_step_types, unit)
    for movement in result.step_decision.next_steps:
        start_execution(run, movement, RPC_ORIGIN_PREFIX + request.rpc_name, unit, now)
    settle(run, unit, now)


def has_effects(result: pb.InvokeWorkerRPCResponse) -> bool:
    """Tell whether an RPC changed anything durable."""
    decision = result.step_decision
    return bool(
        result.upsert_attributes
        or result.publish_to_channel
        or result.delete_from_channel
        or decision.next_steps
        or decision.cancel_step_types
    )


def apply_attempt_started(run: Run, execution: StepExecution, unit: Unit) -> None:
    """Mark an attempt as handed to a Worker, before it is.

    Should the engine end before the answer arrives, the attempt counts as made, so a method with a single
    attempt runs at most once.
    """
    execution.is_started = True
    unit.put_progress(run, execution)


def apply_attempt_not_started(run: Run, execution: StepExecution, unit: Unit) -> None:
    """Take the mark back: the Worker declined the attempt without running any of it."""
    execution.is_started = False
    unit.put_progress(run, execution)


def apply_heartbeat(run: Run, execution: StepExecution, beat: pb.StepMethodHeartbeat, unit: Unit) -> None:
    """Keep the value of a heartbeat for the next attempt; a heartbeat without one clears it.

    Raises:
        ServiceError: The value is unusable.
    """
    if beat.HasField("value"):
        validate_value(beat.value, "heartbeat")
    if execution.heartbeat is not None:
        unit.discard(read_blob_id(execution.heartbeat))
    if beat.HasField("value"):
        execution.heartbeat = pb.Value()
        execution.heartbeat.CopyFrom(unit.store_value(beat.value))
    else:
        execution.heartbeat = None
    unit.put_progress(run, execution)


def apply_attempt_failure(
    run: Run, execution: StepExecution, failure: AttemptFailure, unit: Unit, now: float
) -> None:
    """Plan the next attempt, or follow the failure policy when there is none."""
    unit.touch(run)
    policy = read_retry_policy(execution)
    delay = plan_retry(
        policy, execution.attempt, execution.first_attempt_at, now, failure.retry_after_seconds
    )
    described = build_step_failure(execution, failure)
    if delay is not None:
        unit.put_failure(run, execution, described)
        execution.attempt += 1
        execution.is_started = False
        execution.due_at = now + delay
        unit.put_progress(run, execution)
        unit.timers.append((run, execution))
        return
    kind = EventKind.WAIT_FOR_FAILED if execution.phase == "wait_for" else EventKind.EXECUTE_FAILED
    unit.record(run, kind, now, execution, describe_failure(execution, described))
    options = execution.movement.step_options
    recovery = pb.RecoveryErrorInfo(detail=failure.detail, error_type=failure.error_type)
    if (
        execution.phase == "wait_for"
        and options.wait_for_failure_policy == pb.WAIT_FOR_METHOD_FAILURE_POLICY_PROCEED_ON_FAILURE
    ):
        execution.movement.recovery_error_internal_only.CopyFrom(recovery)
        unit.put_execution(run, execution)
        enter_execute(run, execution, pb.ConditionResults(wait_for_failed=True), unit, now)
    elif (
        execution.phase == "execute"
        and options.execute_failure_policy == pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP
    ):
        del run.executions[execution.number]
        unit.delete_execution(run, execution, keeps_input=True)
        movement = pb.StepMovement(step_type=options.execute_failure_proceed_step_type)
        if execution.movement.HasField("step_input"):
            movement.step_input.CopyFrom(execution.movement.step_input)
        movement.step_options.CopyFrom(options.execute_failure_proceed_step_options)
        start_execution(run, movement, execution.execution_id, unit, now, recovery=recovery)
    else:
        end_execution(run, execution, unit)
        close_run(
            run,
            pb.FLOW_STATUS_FAILED,
            unit,
            now,
            error_type=pb.FLOW_ERROR_TYPE_WORKER_API_FAIL,
            message=failure.detail,
        )
    settle(run, unit, now)


def apply_due_timers(run: Run, execution: StepExecution, unit: Unit, now: float) -> None:
    """Fire every Timer of a waiting execution whose instant has come."""
    is_changed = False
    for timer in execution.timers:
        if not timer.is_over and timer.fire_at <= now:
            timer.status = pb.INTERNAL_TIMER_STATUS_FIRED
            is_changed = True
    if is_changed:
        unit.touch(run)
        unit.put_progress(run, execution)
        settle(run, unit, now)


def apply_skip_timer(run: Run, request: pb.SkipTimerRequest, unit: Unit, now: float) -> None:
    """End a Timer of a waiting execution early; it then reads as completed.

    Raises:
        ServiceError: No waiting execution has such a pending Timer.
    """
    execution = run.find_execution(request.step_execution_id)
    if execution is None or execution.phase != "waiting" or execution.condition is None:
        raise invalid_argument("step_execution_id", f"{request.step_execution_id!r} is not waiting")
    declared = execution.condition.timer_conditions
    if request.timer_condition_id:
        ids = [timer.condition_id for timer in declared]
        index = ids.index(request.timer_condition_id) if request.timer_condition_id in ids else -1
    else:
        index = request.timer_condition_index
    if not 0 <= index < len(declared):
        raise invalid_argument("timer_condition", "the execution has no such timer")
    if execution.timers[index].is_over:
        raise invalid_argument("timer_condition", "the timer is over already")
    execution.timers[index].status = pb.INTERNAL_TIMER_STATUS_SKIPPED
    unit.touch(run)
    unit.put_progress(run, execution)
    settle(run, unit, now)


def apply_flow_timeout(run: Run, unit: Unit, now: float) -> None:
    """Let the soft timeout of a run strike, as its policy says."""
    unit.touch(run)
    run.timeout_at = None
    if run.timeout_policy == pb.FLOW_TIMEOUT_POLICY_HANDLER:
        unit.put_run(run)
        movement = pb.StepMovement(step_type=TIMEOUT_HANDLER, step_options=run.timeout_options)
        movement.step_options.skip_wait_for = True
        start_execution(run, movement, START_ORIGIN, unit, now)
    elif run.timeout_policy == pb.FLOW_TIMEOUT_POLICY_CANCEL:
        close_run(run, pb.FLOW_STATUS_CANCELED, unit, now)
    else:
        close_run(
            run,
            pb.FLOW_STATUS_FAILED,
            unit,
            now,
            error_type=pb.FLOW_ERROR_TYPE_FLOW_TIMEOUT,
            message="the flow did not close within its timeout",
        )
    settle(run, unit, now)


def apply_stop(run: Run, stop_type: pb.StopType, reason: str, unit: Unit, now: float) -> None:
    """Close an open run from outside."""
    unit.touch(run)
    if stop_type == pb.STOP_TYPE_FAIL:
        error_type = pb.FLOW_ERROR_TYPE_CLIENT_API_FAILING_FLOW
        close_run(run, pb.FLOW_STATUS_FAILED, unit, now, error_type=error_type, message=reason)
    elif stop_type == pb.STOP_TYPE_TERMINATE:
        close_run(run, pb.FLOW_STATUS_TERMINATED, unit, now, message=reason)
    else:
        close_run(run, pb.FLOW_STATUS_CANCELED, unit, now, message=reason)


def apply_channel_change(
    run: Run,
    published: Collection[pb.ChannelMessage],
    deleted: Collection[pb.ChannelMessageDeletion],
    unit: Unit,
    now: float,
) -> None:
    """Publish and delete messages on behalf of a client.

    Raises:
        ServiceError: A message is unusable or gone; nothing was changed.
    """
    validate_publications(published)
    validate_deletions(run, deleted)
    unit.touch(run)
    if published:
        unit.record(run, EventKind.MESSAGES_PUBLISHED, now)
        apply_publications(run, published, unit)
    if deleted:
        unit.record(run, EventKind.MESSAGES_DELETED, now, detail=describe_deletions(deleted))
        apply_deletions(run, deleted, unit)
    settle(run, unit, now)


def apply_attribute_change(run: Run, writes: Collection[pb.AttributeWrite], unit: Unit, now: float) -> None:
    """Write Attributes on behalf of a client.

    Raises:
        ServiceError: A write breaks a rule; nothing was changed.
    """
    validate_attribute_writes(writes, unit)
    unit.touch(run)
    unit.record(run, EventKind.RPC_COMPLETED, now, detail=describe_attribute_change())
    apply_attribute_writes(run, writes, unit)
    settle(run, unit, now)


def apply_config(run: Run, config: pb.FlowConfig, unit: Unit) -> None:
    """Merge the fields that are present into the configuration of a run."""
    unit.touch(run)
    run.config.MergeFrom(config)
    unit.put_run(run)


def settle(run: Run, unit: Unit, now: float) -> None:
    """Let every wait that is over go on, in start order, and complete a run that has nothing left to do.

    One pass is enough: it only consumes messages, and what it starts waits for nothing yet.
    """
    if not run.is_running:
        return
    for execution in list(run.executions.values()):
        condition = execution.condition
        if execution.phase != "waiting" or condition is None:
            continue
        plan = plan_wait(condition, execution.timers, run.channels)
        if plan is not None:
            taken: dict[int, list[Message]] = {
                index: take_messages(run, condition.channel_conditions[index].channel_name, count, unit)
                for index, count in plan.items()
            }
            unit.keep_results(run, now)
            enter_execute(run, execution, build_results(execution, taken), unit, now)
    if run.is_completing and not run.executions:
        close_run(run, pb.FLOW_STATUS_COMPLETED, unit, now)


_Result = pb.InvokeWaitForMethodResponse | pb.InvokeExecuteMethodResponse | pb.InvokeWorkerRPCResponse


def _validate_data(result: _Result, unit: Unit) -> None:
    if result.upsert_attributes:
        validate_attribute_writes(result.upsert_attributes, unit)
    if result.publish_to_channel:
        validate_publications(result.publish_to_channel)


def _apply_data(run: Run, result: _Result, unit: Unit) -> None:
    if result.upsert_attributes:
        apply_attribute_writes(run, result.upsert_attributes, unit)
    if result.publish_to_channel:
        apply_publications(run, result.publish_to_channel, unit)
    if result.delete_from_channel:
        apply_deletions(run, result.delete_from_channel, unit)


def _validate_movements(movements: Iterable[pb.StepMovement]) -> None:
    for movement in movements:
        validate_step_type(movement.step_type, "next_steps")
        if movement.HasField("step_input"):
            validate_value(movement.step_input, f"input of step {movement.step_type!r}")


def _follow_decision(
    run: Run, execution: StepExecution, decision: pb.StepDecision, unit: Unit, now: float
) -> None:
    close = decision.close_decision
    kind = close.close_decision_type
    if kind == pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY:
        is_empty = not any(run.channels.get(name) for name in close.conditional_channel_names)
        kind = pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE if is_empty else pb.CLOSE_DECISION_TYPE_UNSPECIFIED
    if kind == pb.CLOSE_DECISION_TYPE_UNSPECIFIED:
        for movement in decision.next_steps:
            start_execution(run, movement, execution.execution_id, unit, now)
    elif kind == pb.CLOSE_DECISION_TYPE_FORCE_FAIL:
        reason = read_scalar(close.close_input)
        close_run(
            run,
            pb.FLOW_STATUS_FAILED,
            unit,
            now,
            error_type=pb.FLOW_ERROR_TYPE_STEP_DECISION_FAILING_FLOW,
            message="" if reason is None else str(reason),
        )
    elif kind != pb.CLOSE_DECISION_TYPE_DEAD_END:
        if close.HasField("close_input") and not is_null(close.close_input):
            collect_output(run, execution, close.close_input, unit)
        if kind == pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE:
            close_run(run, pb.FLOW_STATUS_COMPLETED, unit, now)
        elif not run.is_completing:
            run.is_completing = True
            unit.put_run(run)
