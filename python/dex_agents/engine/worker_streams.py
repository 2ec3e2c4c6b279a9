"""The pull-Worker transport: one `PollWorkerTask` call a stream, frames in, tasks out."""

from __future__ import annotations

import asyncio
import logging

from dex.dexpb import dex_pb2 as pb
from google.protobuf.message import DecodeError

from dex_agents.engine.attempts import DEADLINE_GRACE_SECONDS
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.failures import (
    GRPC_CANCELLED,
    GRPC_UNAVAILABLE,
    ServiceError,
    build_status,
    invalid_argument,
    worker_failed,
)
from dex_agents.engine.retries import AttemptFailure
from dex_agents.engine.streams import StreamKey, Streams
from dex_agents.engine.tasks import Task
from dex_agents.engine.transport.calls import Call, CallFailedError, CallHandler
from dex_agents.engine.workers import WorkerStream

_LOGGER = logging.getLogger(__name__)


class WorkerStreams:
    """Serves `PollWorkerTask`."""

    def __init__(self, coordinator: Coordinator, streams: Streams) -> None:
        self._coordinator = coordinator
        self._attempts = coordinator.attempts
        self._dispatcher = coordinator.attempts.dispatcher
        self._units = coordinator.units
        self._streams = streams

    def open(self, call: Call) -> CallHandler:
        """Serve one stream from its registration to its end."""
        return _PollCall(self, call)

    def register(self, register: pb.PollWorkerTaskRegister, call: Call) -> WorkerStream:
        """Take in a stream that has told whose it is.

        Raises:
            ServiceError: It has not told.
        """
        if not register.app_worker_id or not register.queue:
            raise invalid_argument("register", "queue and app_worker_id must not be empty")
        return self._dispatcher.open_stream(register, call.send)

    def close(self, stream: WorkerStream, *, is_lost: bool) -> None:
        """Note the end of a stream.

        A Worker ends only streams that are idle, so a task that was on its way then has not been run. One
        that is lost may have run some of it.

        Args:
            stream: The stream.
            is_lost: It was given up or its connection broke, rather than ended by its Worker.
        """
        task = self._dispatcher.close_stream(stream)
        if task is not None and not self._coordinator.is_stopping:
            self._note_end(task, is_lost=is_lost)

    def accept(self, stream: WorkerStream, frame: pb.PollWorkerTaskRequest) -> None:
        """Apply a frame.

        Durability:
            An answer is applied once: the task ID names one attempt, and frames of another one are dropped.
        """
        try:
            self._accept(stream, frame)
        except Exception as error:
            self._coordinator.on_defect(error)
            raise

    def _accept(self, stream: WorkerStream, frame: pb.PollWorkerTaskRequest) -> None:
        task, kind = stream.task, frame.WhichOneof("frame")
        if task is None:
            return
        if kind == "task_frame":
            body = frame.task_frame
            if body.task_id == task.task_id:
                self._accept_output(stream, task, body)
        elif kind == "reject" and frame.reject.task_id == task.task_id:
            self._dispatcher.decline(stream, frame.reject.reason)
            self._attempts.note_not_run(task)

    def _accept_output(self, stream: WorkerStream, task: Task, body: pb.PollWorkerTaskFrame) -> None:
        match body.WhichOneof("output"):
            case "execute":
                self._accept_method_output(stream, task, body.execute)
            case "wait_for":
                self._accept_method_output(stream, task, body.wait_for)
            case "rpc":
                self._dispatcher.finish(stream)
                if task.reply is not None and not task.reply.done():
                    task.reply.set_result(body.rpc)
            case "worker_error":
                self._dispatcher.finish(stream)
                self._fail(task, body.worker_error)
            case _:
                pass

    def _accept_method_output(
        self,
        stream: WorkerStream,
        task: Task,
        output: pb.InvokeExecuteMethodOutput | pb.InvokeWaitForMethodOutput,
    ) -> None:
        match output.WhichOneof("output"):
            case "result":
                self._dispatcher.finish(stream)
                self._attempts.note_step_result(task, output.result)
            case "heartbeat":
                self._beat(task, output.heartbeat)
            case "stream_write":
                self._append(task, output.stream_write)
            case _:
                pass

    def _beat(self, task: Task, beat: pb.StepMethodHeartbeat) -> None:
        task.beat_at = asyncio.get_running_loop().time()
        self._attempts.note_heartbeat(task, beat)

    def _append(self, task: Task, write: pb.StepStreamWrite) -> None:
        task.beat_at = asyncio.get_running_loop().time()
        if task.execution is None:
            return
        unit = self._units.open_in_company()
        try:
            self._streams.append(
                StreamKey(task.run.flow_type, write.stream_name, task.run.flow_id),
                write.value,
                unit,
                capacity=write.stream_capacity_bytes,
                source=f"#{task.execution.execution_id}",
                now=self._units.now(),
            )
        except ServiceError as failure:
            _LOGGER.warning("dropping a message of stream %r: %s", write.stream_name, failure.detail)
            return
        self._units.commit_in_company(unit)

    def _fail(self, task: Task, error: pb.WorkerErrorResponse) -> None:
        if task.reply is not None:
            if not task.reply.done():
                task.reply.set_exception(worker_failed(error))
            return
        loop_time = asyncio.get_running_loop().time()
        # A Worker cancels a handler at its deadline by itself: that is the method timeout.
        is_late = (
            error.grpc_status == GRPC_CANCELLED
            and loop_time - task.assigned_at >= task.timeout - 1.5 * DEADLINE_GRACE_SECONDS
        )
        error_type = "MethodTimeout" if is_late else error.error_type
        self._attempts.note_step_failure(
            task, AttemptFailure(error.detail, error_type, error.retry_after_seconds)
        )

    def _note_end(self, task: Task, *, is_lost: bool) -> None:
        if not is_lost or not task.is_sent:
            self._attempts.note_not_run(task)
        elif task.reply is not None:
            if not task.reply.done():
                lost = pb.WorkerErrorResponse(
                    detail="the Worker disconnected",
                    error_type="WorkerDisconnected",
                    grpc_status=GRPC_UNAVAILABLE,
                )
                task.reply.set_exception(worker_failed(lost))
        else:
            self._attempts.note_step_failure(
                task, AttemptFailure("the Worker disconnected", "WorkerDisconnected")
            )


class _PollCall:
    """One `PollWorkerTask` call: frames in, tasks out."""

    __slots__ = ("_call", "_stream", "_worker_streams")

    def __init__(self, worker_streams: WorkerStreams, call: Call) -> None:
        self._worker_streams = worker_streams
        self._call = call
        self._stream: WorkerStream | None = None

    def receive(self, message: bytes) -> None:
        """Take a frame; see `CallHandler`."""
        try:
            frame = pb.PollWorkerTaskRequest.FromString(message)
        except DecodeError:
            failure = invalid_argument("frame", "the bytes are not a frame")
            raise CallFailedError(build_status(failure)) from None
        if self._stream is not None:
            self._worker_streams.accept(self._stream, frame)
            return
        try:
            if frame.WhichOneof("frame") != "register":
                raise invalid_argument("frame", "the first one must be a registration")
            self._stream = self._worker_streams.register(frame.register, self._call)
        except ServiceError as failure:
            raise CallFailedError(build_status(failure)) from None

    def end(self) -> None:
        """The Worker retires the stream; see `CallHandler`."""
        self._close(is_lost=False)
        self._call.finish()

    def cancel(self) -> None:
        """The stream is lost; see `CallHandler`."""
        self._close(is_lost=True)

    def _close(self, *, is_lost: bool) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._worker_streams.close(stream, is_lost=is_lost)
