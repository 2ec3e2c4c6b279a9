from __future__ import annotations

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from google.rpc import status_pb2  # pyright: ignore[reportMissingTypeStubs]

from dex_agents.engine.failures import (
    ServiceError,
    build_status,
    flow_already_started,
    flow_not_found,
    invalid_argument,
    lock_conflict,
    long_poll_expired,
    message_not_found,
    rpc_timed_out,
    unimplemented,
    worker_failed,
)


def read(failure: ServiceError) -> tuple[grpc.StatusCode, pb.ServiceErrorResponse]:
    status = build_status(failure)
    response = pb.ServiceErrorResponse()
    status_pb2.Status.FromString(status.details).details[0].Unpack(response)
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    return code, response


@pytest.mark.parametrize(
    ("failure", "code", "sub_status"),
    [
        (flow_not_found("f"), "NOT_FOUND", "FLOW_NOT_EXISTS"),
        (flow_already_started("f"), "ALREADY_EXISTS", "FLOW_ALREADY_STARTED"),
        (lock_conflict("key"), "ABORTED", "WORKER_API_ERROR"),
        (long_poll_expired(), "DEADLINE_EXCEEDED", "LONG_POLL_TIME_OUT"),
        (rpc_timed_out("rpc", 1), "DEADLINE_EXCEEDED", "WORKER_API_ERROR"),
        (message_not_found("c", "m"), "NOT_FOUND", "CHANNEL_MESSAGE_NOT_FOUND"),
        (worker_failed(pb.WorkerErrorResponse()), "FAILED_PRECONDITION", "WORKER_API_ERROR"),
        (invalid_argument("field", "problem"), "INVALID_ARGUMENT", "UNCATEGORIZED"),
        (unimplemented("ResetFlow"), "UNIMPLEMENTED", "UNCATEGORIZED"),
    ],
)
def test_a_failure_has_the_status_that_the_sdk_understands(
    failure: ServiceError, code: str, sub_status: str
) -> None:
    found, response = read(failure)
    assert found.name == code
    assert pb.ErrorSubStatus.Name(response.sub_status) == f"ERROR_SUB_STATUS_{sub_status}"


def test_the_error_of_a_handler_is_passed_on_and_the_own_detail_left_empty() -> None:
    error = pb.WorkerErrorResponse(detail="broken", error_type="T", stack_trace="at x", grpc_status=2)
    _, response = read(worker_failed(error))
    assert response.detail == ""
    assert (
        response.original_worker_error_detail,
        response.original_worker_error_type,
        response.original_worker_error_stack_trace,
        response.original_worker_error_status,
    ) == ("broken", "T", "at x", 2)


def test_a_status_stays_small_enough_for_its_trailers() -> None:
    error = pb.WorkerErrorResponse(detail="ä" * 50_000, error_type="T" * 50_000, stack_trace="x" * 50_000)
    status = build_status(worker_failed(error))
    assert len(status.message) + len(status.details) < 6000
    assert "ä" in read(worker_failed(error))[1].original_worker_error_detail
