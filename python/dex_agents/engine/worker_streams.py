"""The pull-Worker transport: one `PollWorkerTask` call a stream, frames in, tasks out."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.attempts import DEADLINE_GRACE_SECONDS
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.failures import (
    GRPC_CANCELLED,
    GRPC_UNAVAILABLE,
    ServiceError,
    abort,
    invalid_argument,
    worker_failed,
)
from dex_agents.engine.retries import AttemptFailure, read_retry_policy
from dex_agents.engine.streams import StreamKey, Streams
from dex_agents.engine.tasks import Task
from dex_agents.engine.workers import WorkerStream

LOSS_WAIT_SECONDS = 0.1
"""How long a stream that ended with a task is watched for the news that its Worker is gone.

A Worker that dies and one that ends a stream in good order look the same at first; the loss is reported
milliseconds later. After this time the task was not run: a Worker ends only streams that are idle.
"""

SINGLE_ATTEMPT_LOSS_WAIT_SECONDS = 1.0
"""The same for a method with a single attempt: here a mistake would run something twice."""

_Context = grpc.aio.ServicerContext[pb.PollWorkerTaskRequest, pb.PollWorkerTaskResponse]
_EOF: Any = grpc.aio.EOF
_LOGGER = logging.getLogger(__name__)


class _Writer:
    """Writes messages to one call in order, without making the caller wait."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def write(self, message: pb.PollWorkerTaskResponse) -> None:
        writing = asyncio.get_running_loop().create_task(self._write(message))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Let a write that is under way end: a call must not return in the middle of one."""
        async with self._lock:
            self._is_closed = True

    async def _write(self, message: pb.PollWorkerTaskResponse) -> None:
        async with self._lock:
            if self._is_closed:
                return
            try:
                await self._context.write(message)
            except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
                # The call ended meanwhile; whoever reads it decides what becomes of its task.
                _LOGGER.debug("a Worker stream ended during a write: %s", error)


class WorkerStreams:
    """Serves `PollWorkerTask`."""

    def __init__(self, coordinator: Coordinator, streams: Streams) -> None:
        self._coordinator = coordinator
        self._attempts = coordinator.attempts
        self._dispatcher = coordinator.attempts.dispatcher
        self._units = coordinator.units
        self._streams = streams

    async def poll(self, context: _Context) -> None:
        """Serve one stream from its registration to its end.

        Durability:
            An answer is applied once: the task ID names one attempt, and frames of another one are dropped.
        """
        first = await context.read()
        if first is _EOF:
            return
        if first.WhichOneof("frame") != "register":
            await abort(context, invalid_argument("frame", "the first one must be a registration"))
        register = first.register
        if not register.app_worker_id or not register.queue:
            await abort(context, invalid_argument("register", "queue and app_worker_id must not be empty"))
        writer = _Writer(context)
        dispatcher = self._dispatcher
        stream = dispatcher.open_stream(register, writer.write)
        was_closed_in_order = False
        try:
            while True:
                frame = await context.read()
                if frame is _EOF:
                    break
                try:
                    self._accept(stream, frame)
                except Exception as error:
                    self._coordinator.on_defect(error)
                    raise
            if stream.task is not None and stream.task.is_sent:
                execution = stream.task.execution
                runs_once = execution is not None and read_retry_policy(execution).maximum_attempts == 1
                await asyncio.sleep(SINGLE_ATTEMPT_LOSS_WAIT_SECONDS if runs_once else LOSS_WAIT_SECONDS)
            was_closed_in_order = True
        finally:
            task = dispatcher.close_stream(stream)
            if task is not None and not self._coordinator.is_stopping:
                self._note_end(task, was_closed_in_order)
            if was_closed_in_order:
                await writer.close()

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
        unit = self._units.open()
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

    def _note_end(self, task: Task, was_closed_in_order: bool) -> None:
        if was_closed_in_order or not task.is_sent:
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
