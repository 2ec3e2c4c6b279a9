"""Builds what the engine's pure parts take."""

from __future__ import annotations

from collections.abc import Sequence

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.machine import start_run
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers

NOW = 1_000_000.0


def new_unit(index_types: dict[str, int] | None = None) -> Unit:
    return Unit(BlobNumbers("00c0ffee", 0), {} if index_types is None else index_types)


def text(value: str) -> pb.Value:
    return pb.Value(string_value=value)


def null() -> pb.Value:
    return pb.Value(null_value="NULL_VALUE")


def message(channel: str, value: str) -> pb.ChannelMessage:
    return pb.ChannelMessage(channel_name=channel, value=text(value))


def write(key: str, value: pb.Value) -> pb.AttributeWrite:
    return pb.AttributeWrite(key=key, value=value)


def movement(step_type: str, options: pb.StepOptions | None = None) -> pb.StepMovement:
    return pb.StepMovement(step_type=step_type, step_input=text("input"), step_options=options)


def skipping() -> pb.StepOptions:
    return pb.StepOptions(skip_wait_for=True)


def new_run(step_type: str = "", options: pb.StepOptions | None = None) -> Run:
    """Return an open run whose start Step, if any, is in its first method."""
    run = Run(
        number=1,
        run_id="0123456789abcdef",
        flow_id="flow",
        flow_type="Flow",
        request_id="request",
        started_at=NOW,
        config=pb.FlowConfig(),
    )
    request = pb.StartFlowRequest(
        flow_id="flow",
        flow_type="Flow",
        start_step_type=step_type,
        step_input=text("input"),
        step_options=options,
    )
    start_run(run, request, new_unit(), NOW)
    return run


def only(run: Run) -> StepExecution:
    (execution,) = run.executions.values()
    return execution


def active(run: Run) -> list[str]:
    return [execution.execution_id for execution in run.executions.values()]


def decide(
    *next_steps: pb.StepMovement,
    close: pb.CloseDecisionType | None = None,
    output: str | None = None,
    channels: Sequence[str] = (),
    cancel: Sequence[str] = (),
    cancel_siblings: Sequence[str] = (),
) -> pb.InvokeExecuteMethodResponse:
    decision = pb.StepDecision(
        next_steps=next_steps, cancel_step_types=cancel, cancel_sibling_step_types=cancel_siblings
    )
    if close is not None:
        decision.close_decision.close_decision_type = close
        decision.close_decision.conditional_channel_names.extend(channels)
        if output is not None:
            decision.close_decision.close_input.CopyFrom(text(output))
    return pb.InvokeExecuteMethodResponse(step_decision=decision)


def wait(
    *conditions: pb.ChannelCondition | pb.TimerCondition,
    kind: pb.WaitingConditionType = pb.WAITING_CONDITION_TYPE_ALL_COMPLETED,
    combinations: Sequence[Sequence[str]] = (),
) -> pb.WaitingCondition:
    return pb.WaitingCondition(
        waiting_condition_type=kind,
        timer_conditions=[each for each in conditions if isinstance(each, pb.TimerCondition)],
        channel_conditions=[each for each in conditions if isinstance(each, pb.ChannelCondition)],
        condition_combinations=[pb.ConditionCombination(condition_ids=ids) for ids in combinations],
    )


def channel(
    name: str, *, at_least: int | None = None, at_most: int | None = None, condition_id: str = ""
) -> pb.ChannelCondition:
    return pb.ChannelCondition(
        channel_name=name, at_least=at_least, at_most=at_most, condition_id=condition_id or name
    )


def timer(seconds: int, condition_id: str = "timer") -> pb.TimerCondition:
    return pb.TimerCondition(condition_id=condition_id, duration_seconds=seconds)
