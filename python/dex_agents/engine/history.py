"""What a history event holds beyond the unit it is in: built where the thing happens, and small.

An event is read from the operations of its unit (see `history_events`), which say what was written. What they
do not say is its detail: a decision without its next Steps, the name of an RPC, a failure. Most events have
none, so that a commit carries no value twice. It is a serialised `FlowHistoryEvent`, or the empty string.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.retries import AttemptFailure
from dex_agents.engine.state import StepExecution

DETAIL_VALUE_BYTES = 4096
"""Values that no state holds, such as the answer of an RPC, are left out above this size."""

FAILURE_TEXT_CHARACTERS = 4096
"""A longer description of a failure is cut."""

_ATTRIBUTE_CHANGE = pb.FlowHistoryEvent(
    rpc_execution_completed=pb.RpcExecutionCompletedEvent(is_set_attribute_api=True)
).SerializeToString()


def describe_start(request: pb.StartFlowRequest) -> bytes:
    """Return the detail of a start."""
    options = request.flow_start_options
    if not request.flow_timeout_seconds and not options.HasField("timeout_handler_options"):
        return b""
    detail = pb.FlowHistoryEvent()
    started = detail.flow_started_or_continued
    if request.flow_timeout_seconds:
        started.flow_timeout.FromSeconds(request.flow_timeout_seconds)
    if options.HasField("timeout_handler_options"):
        started.timeout_handler_options.CopyFrom(options.timeout_handler_options)
    return detail.SerializeToString()


def describe_wait_for(execution: StepExecution, result: pb.InvokeWaitForMethodResponse) -> bytes:
    """Return the detail of what `wait_for` returned."""
    if not (
        result.HasField("waiting_condition")
        or result.delete_from_channel
        or result.record_events
        or execution.last_failure is not None
    ):
        return b""
    detail = pb.FlowHistoryEvent()
    event = detail.step_wait_for_completed
    if result.HasField("waiting_condition"):
        event.output.wait_for_condition.CopyFrom(result.waiting_condition)
    _describe_effects(event.output, result)
    if execution.last_failure is not None:
        event.context.last_failure_info.CopyFrom(execution.last_failure)
    return detail.SerializeToString()


def describe_execute(execution: StepExecution, result: pb.InvokeExecuteMethodResponse) -> bytes:
    """Return the detail of what `execute` returned."""
    if execution.last_failure is None and not result.delete_from_channel and not result.record_events:
        if not _has_more_than_next_steps(result.step_decision):
            return b""
        if not _has_more_than_close_type(result.step_decision):
            return _describe_close(result.step_decision.close_decision.close_decision_type)
    detail = pb.FlowHistoryEvent()
    event = detail.step_execute_completed
    _describe_decision(event.output.step_decision, result.step_decision)
    _describe_effects(event.output, result)
    if execution.last_failure is not None:
        event.context.last_failure_info.CopyFrom(execution.last_failure)
    return detail.SerializeToString()


def describe_rpc(request: pb.InvokeRPCRequest, result: pb.InvokeWorkerRPCResponse) -> bytes:
    """Return the detail of an RPC that changed something."""
    detail = pb.FlowHistoryEvent()
    event = detail.rpc_execution_completed
    event.rpc_name = request.rpc_name
    if request.HasField("input") and request.input.ByteSize() <= DETAIL_VALUE_BYTES:
        event.input.CopyFrom(request.input)
    if result.HasField("output") and result.output.ByteSize() <= DETAIL_VALUE_BYTES:
        event.output.CopyFrom(result.output)
    if _has_more_than_next_steps(result.step_decision):
        _describe_decision(event.step_decision, result.step_decision)
    _describe_effects(event, result)
    return detail.SerializeToString()


def describe_attribute_change() -> bytes:
    """Return the detail of Attributes that a client wrote: an RPC without a name, as the wire has it."""
    return _ATTRIBUTE_CHANGE


def describe_deletions(deleted: Iterable[pb.ChannelMessageDeletion]) -> bytes:
    """Return the detail of messages that a client deleted."""
    event = pb.ChannelExternalDeleteEvent(messages=deleted)
    return pb.FlowHistoryEvent(channel_external_delete=event).SerializeToString()


def describe_failure(execution: StepExecution, failure: pb.StepMethodFailure) -> bytes:
    """Return the detail of a method that has no attempt left."""
    detail = pb.FlowHistoryEvent()
    is_wait_for = execution.phase == "wait_for"
    event = detail.step_wait_for_failed if is_wait_for else detail.step_execute_failed
    event.output.failure.CopyFrom(failure)
    if execution.last_failure is not None:
        event.context.last_failure_info.CopyFrom(execution.last_failure)
    return detail.SerializeToString()


def describe_pending(execution: StepExecution) -> bytes:
    """Return the detail of a method whose run closed before it could end."""
    detail = pb.FlowHistoryEvent()
    is_wait_for = execution.phase == "wait_for"
    event = detail.step_wait_for_pending if is_wait_for else detail.step_execute_pending
    token = execution.attempt_token
    is_started = execution.is_started or (token is not None and token.is_sent)
    event.phase = (
        pb.PENDING_STEP_METHOD_PHASE_STARTED if is_started else pb.PENDING_STEP_METHOD_PHASE_SCHEDULED
    )
    if execution.last_failure is not None:
        event.context.last_failure_info.CopyFrom(execution.last_failure)
    return detail.SerializeToString()


def build_step_failure(execution: StepExecution, failure: AttemptFailure) -> pb.StepMethodFailure:
    """Build what the wire shows of the failure of the present attempt."""
    return pb.StepMethodFailure(
        attempt=execution.attempt,
        details=pb.ServiceErrorResponse(
            sub_status=pb.ERROR_SUB_STATUS_WORKER_API_ERROR,
            original_worker_error_detail=failure.detail[:FAILURE_TEXT_CHARACTERS],
            original_worker_error_type=failure.error_type,
        ),
    )


_Output = pb.StepWaitForCompletedOutput | pb.StepExecuteCompletedOutput | pb.RpcExecutionCompletedEvent
_Result = pb.InvokeWaitForMethodResponse | pb.InvokeExecuteMethodResponse | pb.InvokeWorkerRPCResponse


def _describe_effects(output: _Output, result: _Result) -> None:
    if result.delete_from_channel:
        output.delete_from_channel.extend(result.delete_from_channel)
    if result.record_events:
        output.record_events.extend(
            event for event in result.record_events if event.ByteSize() <= DETAIL_VALUE_BYTES
        )


def _has_more_than_next_steps(decision: pb.StepDecision) -> bool:
    return bool(
        decision.HasField("close_decision")
        or decision.cancel_step_types
        or decision.cancel_sibling_step_types
    )


def _has_more_than_close_type(decision: pb.StepDecision) -> bool:
    close = decision.close_decision
    return bool(
        decision.cancel_step_types
        or decision.cancel_sibling_step_types
        or close.conditional_channel_names
        or close.HasField("close_input")
    )


@cache
def _describe_close(kind: pb.CloseDecisionType) -> bytes:
    # One of few: most Steps of a session end like this, so it is spelled once.
    detail = pb.FlowHistoryEvent()
    detail.step_execute_completed.output.step_decision.close_decision.close_decision_type = kind
    return detail.SerializeToString()


def _describe_decision(described: pb.StepDecision, decision: pb.StepDecision) -> None:
    """Describe a decision without its next Steps, which the unit starts."""
    described.cancel_step_types.extend(decision.cancel_step_types)
    described.cancel_sibling_step_types.extend(decision.cancel_sibling_step_types)
    if decision.HasField("close_decision"):
        close = decision.close_decision
        described.close_decision.close_decision_type = close.close_decision_type
        described.close_decision.conditional_channel_names.extend(close.conditional_channel_names)
        if close.HasField("close_input") and close.close_input.ByteSize() <= DETAIL_VALUE_BYTES:
            described.close_decision.close_input.CopyFrom(close.close_input)
