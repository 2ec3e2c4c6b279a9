"""Failures that a gRPC caller sees, and their translation to the status the SDK understands.

The SDK looks at the packed `ServiceErrorResponse` and, for lock conflicts, at the gRPC code; every other
layer of the engine raises `ServiceError` and knows nothing of gRPC.
"""

from __future__ import annotations

import grpc
from dex.dexpb import dex_pb2 as pb
from google.protobuf import any_pb2
from google.rpc import status_pb2  # type: ignore[import-untyped]

from dex_agents.engine.transport.calls import Status

MAX_STATUS_DETAIL_BYTES = 4096
"""gRPC sends a status in HTTP/2 trailers, which peers limit to 8 KiB by default, twice: as text and as
details."""

GRPC_CANCELLED = 1
GRPC_UNAVAILABLE = 14
"""Codes inside a Worker's error: the handler was stopped; nobody was there, so nothing was done."""


class ServiceError(Exception):
    """A call that cannot be served, with the status its caller receives.

    Attributes:
        code: The gRPC status code.
        sub_status: What the SDK maps to an exception class.
        detail: A lower-case sentence for the caller.
        worker_error: The error a Worker reported, when the call failed inside a handler.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        sub_status: pb.ErrorSubStatus,
        detail: str,
        worker_error: pb.WorkerErrorResponse | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.sub_status = sub_status
        self.detail = detail
        self.worker_error = worker_error


def flow_not_found(flow_id: str) -> ServiceError:
    """Return the failure for a Flow that does not exist or, where it must be running, is closed."""
    return ServiceError(
        grpc.StatusCode.NOT_FOUND,
        pb.ERROR_SUB_STATUS_FLOW_NOT_EXISTS,
        f"flow {flow_id!r} does not exist or is not running",
    )


def flow_already_started(flow_id: str) -> ServiceError:
    """Return the failure for a Flow ID that the reuse policy does not let start again."""
    return ServiceError(
        grpc.StatusCode.ALREADY_EXISTS,
        pb.ERROR_SUB_STATUS_FLOW_ALREADY_STARTED,
        f"flow {flow_id!r} was already started",
    )


def lock_conflict(key: str) -> ServiceError:
    """Return the failure for an RPC that wants an Attribute lock held by somebody else."""
    return ServiceError(
        grpc.StatusCode.ABORTED, pb.ERROR_SUB_STATUS_WORKER_API_ERROR, f"attribute {key!r} is locked"
    )


def long_poll_expired() -> ServiceError:
    """Return the failure that tells a waiting client to ask again."""
    return ServiceError(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        pb.ERROR_SUB_STATUS_LONG_POLL_TIME_OUT,
        "nothing happened within the wait time",
    )


def invalid_argument(field: str, problem: str) -> ServiceError:
    """Return the failure for input that breaks a limit or a rule."""
    return ServiceError(
        grpc.StatusCode.INVALID_ARGUMENT, pb.ERROR_SUB_STATUS_UNCATEGORIZED, f"{field}: {problem}"
    )


def failed_precondition(detail: str) -> ServiceError:
    """Return the failure for a well-formed call that the present state does not allow."""
    return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, pb.ERROR_SUB_STATUS_UNCATEGORIZED, detail)


def message_not_found(channel: str, message_id: str) -> ServiceError:
    """Return the failure for the deletion of a Channel message that is gone."""
    return ServiceError(
        grpc.StatusCode.NOT_FOUND,
        pb.ERROR_SUB_STATUS_CHANNEL_MESSAGE_NOT_FOUND,
        f"channel {channel!r} has no message {message_id!r}",
    )


def rpc_timed_out(rpc_name: str, seconds: float) -> ServiceError:
    """Return the failure for an RPC that no Worker answered in time."""
    return ServiceError(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        pb.ERROR_SUB_STATUS_WORKER_API_ERROR,
        f"rpc {rpc_name!r} was not answered within {seconds:g} s",
    )


def worker_failed(error: pb.WorkerErrorResponse) -> ServiceError:
    """Return the failure for an RPC whose handler raised, or that no Worker could take."""
    return ServiceError(
        grpc.StatusCode.FAILED_PRECONDITION,
        pb.ERROR_SUB_STATUS_WORKER_API_ERROR,
        "" if error.detail else "the Worker could not serve the call",
        error,
    )


def unimplemented(method: str, part: str = "") -> ServiceError:
    """Return the failure for a method, or a named part of one, that the local engine does not serve."""
    return ServiceError(
        grpc.StatusCode.UNIMPLEMENTED,
        pb.ERROR_SUB_STATUS_UNCATEGORIZED,
        f"the local engine does not serve {method}{f' with {part}' if part else ''}",
    )


def internal(detail: str) -> ServiceError:
    """Return the failure for a defect or a lost database."""
    return ServiceError(grpc.StatusCode.INTERNAL, pb.ERROR_SUB_STATUS_UNCATEGORIZED, detail)


def data_lost(detail: str) -> ServiceError:
    """Return the failure for a call that needs something that can no longer be read."""
    return ServiceError(grpc.StatusCode.DATA_LOSS, pb.ERROR_SUB_STATUS_UNCATEGORIZED, detail)


def unavailable(detail: str) -> ServiceError:
    """Return the failure for a call that reached an engine which is stopping."""
    return ServiceError(grpc.StatusCode.UNAVAILABLE, pb.ERROR_SUB_STATUS_UNCATEGORIZED, detail)


def build_status(failure: ServiceError) -> Status:
    """Build the gRPC status that carries a failure."""
    response = pb.ServiceErrorResponse(
        detail=_shorten(failure.detail, MAX_STATUS_DETAIL_BYTES // 4), sub_status=failure.sub_status
    )
    error = failure.worker_error
    if error is not None:
        response.original_worker_error_detail = _shorten(error.detail, MAX_STATUS_DETAIL_BYTES // 4)
        response.original_worker_error_type = _shorten(error.error_type, MAX_STATUS_DETAIL_BYTES // 16)
        response.original_worker_error_status = error.grpc_status
        response.original_worker_error_stack_trace = _shorten(error.stack_trace, MAX_STATUS_DETAIL_BYTES // 2)
    packed = any_pb2.Any()
    packed.Pack(response)
    code: int = failure.code.value[0]
    status = status_pb2.Status(code=code, message=response.detail, details=[packed])
    return Status(code, response.detail, status.SerializeToString())


def _shorten(text: str, limit: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore")
