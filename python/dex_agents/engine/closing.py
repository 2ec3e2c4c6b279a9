"""The end of a run: what it returns and how it closes."""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.executions import end_execution
from dex_agents.engine.flow_retries import drop_request, plan_flow_retry
from dex_agents.engine.history import describe_pending
from dex_agents.engine.journal import EventKind, Table
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.unit import Unit


def collect_output(run: Run, execution: StepExecution, value: pb.Value, unit: Unit) -> None:
    """Keep what a completing execution returns."""
    output = pb.StepCompletionOutput(
        completed_step_type=execution.step_type, completed_step_execution_id=execution.execution_id
    )
    output.completed_step_output.CopyFrom(unit.store_value(value))
    run.outputs.append(output)
    unit.put(Table.OUTPUT, (run.number, len(run.outputs)), output.SerializeToString())


def close_run(
    run: Run,
    status: pb.FlowStatus,
    unit: Unit,
    now: float,
    *,
    error_type: pb.FlowErrorType = pb.FLOW_ERROR_TYPE_UNSPECIFIED,
    message: str = "",
) -> None:
    """Close a run and end everything that is active in it.

    A run of a Flow with a retry policy that failed is noted in the unit if another run is to follow it.
    """
    for execution in list(run.executions.values()):
        if execution.phase != "waiting":
            is_wait_for = execution.phase == "wait_for"
            kind = EventKind.WAIT_FOR_PENDING if is_wait_for else EventKind.EXECUTE_PENDING
            unit.record(run, kind, now, execution, describe_pending(execution))
        end_execution(run, execution, unit)
    run.status = status
    run.closed_at = now
    run.error_type = error_type
    run.error_message = message
    unit.record(run, EventKind.FLOW_CLOSED, now)
    unit.put_run(run)
    if run.chain is not None:
        delay = plan_flow_retry(run, run.chain, now)
        if delay is None:
            drop_request(run, run.chain, unit)
        else:
            unit.restarts.append((run, delay))
