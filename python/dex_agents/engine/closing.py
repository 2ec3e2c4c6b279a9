"""The end of a run: what it returns and how it closes."""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.executions import end_execution
from dex_agents.engine.journal import Table
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
    """Close a run and end everything that is active in it."""
    for execution in list(run.executions.values()):
        end_execution(run, execution, unit)
    run.status = status
    run.closed_at = now
    run.error_type = error_type
    run.error_message = message
    unit.put_run(run)
