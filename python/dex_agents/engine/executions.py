"""Executions of Steps: how one begins, moves to its second method and ends."""

from __future__ import annotations

from collections.abc import Collection

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import Table
from dex_agents.engine.state import TIMEOUT_HANDLER, Run, StepExecution
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import read_blob_id

_NULL = pb.Value(null_value="NULL_VALUE")


def start_execution(
    run: Run,
    movement: pb.StepMovement,
    origin: str,
    unit: Unit,
    now: float,
    *,
    recovery: pb.RecoveryErrorInfo | None = None,
    delay: float = 0,
) -> None:
    """Begin an execution of a Step, due at once or after a delay."""
    count = run.started_counts.get(movement.step_type, 0) + 1
    run.started_counts[movement.step_type] = count
    run.last_execution += 1
    own = pb.StepMovement()
    own.CopyFrom(movement)
    own.from_step_execution_id_internal_only = origin
    own.ClearField("recovery_error_internal_only")
    if recovery is not None:
        own.recovery_error_internal_only.CopyFrom(recovery)
    if own.HasField("step_input"):
        stored = unit.store_value(own.step_input)
        if stored is not own.step_input:
            own.step_input.CopyFrom(stored)
    elif movement.step_type != TIMEOUT_HANDLER:
        # The SDK refuses a request without an input, so an absent one is the null it stands for.
        own.step_input.CopyFrom(_NULL)
    execution = StepExecution(
        run.last_execution,
        f"{movement.step_type}-{count}",
        own,
        "execute" if own.step_options.skip_wait_for else "wait_for",
        first_attempt_at=now + delay,
        due_at=now + delay,
    )
    run.executions[execution.number] = execution
    unit.put_execution(run, execution)
    unit.put(Table.COUNTER, (run.number, movement.step_type), count)
    if delay:
        unit.timers.append((run, execution))
    else:
        unit.ready.append((run, execution))


def enter_execute(
    run: Run, execution: StepExecution, results: pb.ConditionResults, unit: Unit, now: float
) -> None:
    """Put an execution into its second method; attempt and heartbeat start afresh."""
    execution.phase = "execute"
    execution.results = results
    execution.condition = None
    execution.timers = []
    execution.attempt = 1
    execution.is_started = False
    unit.delete_failure(run, execution)
    if execution.heartbeat is not None:
        unit.discard(read_blob_id(execution.heartbeat))
        execution.heartbeat = None
    execution.first_attempt_at = execution.due_at = now
    unit.put_progress(run, execution)
    unit.ready.append((run, execution))


def end_execution(run: Run, execution: StepExecution, unit: Unit) -> None:
    """End an execution that did not end itself: a Worker still busy with it is told to stop."""
    del run.executions[execution.number]
    unit.delete_execution(run, execution)
    unit.ended.append((run, execution))


def end_step_types(run: Run, step_types: Collection[str], unit: Unit) -> None:
    """End every execution of some Step types."""
    if step_types:
        for execution in list(run.executions.values()):
            if execution.step_type in step_types:
                end_execution(run, execution, unit)
