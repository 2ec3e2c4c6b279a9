"""Matching tasks with the streams of Workers.

A Worker holds one stream for each of its queues and opens spare ones as streams get busy; a stream carries
one task at a time. What the protocol leaves unsaid is learned:

* Capacity is not announced. A decline says that what is in flight is the limit; successes raise it slowly.
* A spare stream is acknowledged when a task needs it. Acknowledged at once, it would make the Worker retire
another
  one after every task, and each new stream costs it milliseconds.
* The oldest idle stream goes first: one reused right after its answer races the Worker's own bookkeeping.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.tasks import Task, TaskKind, TaskSource
from dex_agents.engine.workers import Worker, WorkerStream

DISPATCH_WAIT_SECONDS = 10.0
"""How long a task waits for a Worker that can take it: an RPC for any, a Step once some Worker did not know
it."""

SWEEP_SECONDS = 0.25
"""Interval at which deadlines and heartbeats of running tasks are looked at."""

_ACKNOWLEDGEMENT = pb.PollWorkerTaskResponse(
    registered=pb.PollWorkerTaskRegistered(supports_unknown_name_rejection=True)
).SerializeToString()


class _Backlog:
    __slots__ = ("rpcs", "steps")

    def __init__(self) -> None:
        self.rpcs: deque[Task] = deque()
        self.steps: deque[Task] = deque()

    def select(self, kind: TaskKind) -> deque[Task]:
        return self.rpcs if kind == "rpc" else self.steps


class Dispatcher:
    """Hands tasks to Workers, RPCs first.

    Attributes:
        answered: Tasks answered so far.
    """

    def __init__(
        self, source: TaskSource, call_when_durable: Callable[[int, Callable[[], None]], None]
    ) -> None:
        """Create a dispatcher without Workers.

        Args:
            source: Who owns the tasks.
            call_when_durable: Calls something once a journal sequence survives a crash.
        """
        self._source = source
        self._call_when_durable = call_when_durable
        self._loop = asyncio.get_running_loop()
        self._workers: dict[str, Worker] = {}
        self._carriers: dict[Task, WorkerStream] = {}
        self._backlogs: dict[str, _Backlog] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_draining = False
        self._is_idle = asyncio.Event()
        self.answered: dict[TaskKind, int] = {"step": 0, "rpc": 0}

    @property
    def workers(self) -> Iterable[Worker]:
        """The connected Workers."""
        return self._workers.values()

    def count_queued(self) -> dict[str, int]:
        """Return the number of tasks that wait for a Worker, by Flow type."""
        return {
            flow_type: len(backlog.rpcs) + len(backlog.steps) for flow_type, backlog in self._backlogs.items()
        }

    def submit(self, task: Task) -> None:
        """Queue a task and hand it out if a Worker has room."""
        task.queued_at = self._loop.time()
        self._backlog(task.run.flow_type).select(task.kind).append(task)
        self._pump_type(task.run.flow_type)
        self._arm_sweeper()

    def withdraw(self, task: Task) -> None:
        """Stop caring about a task: drop it if it waits, tell its Worker to stop if it runs."""
        task.is_withdrawn = True
        stream = self._carriers.get(task)
        if stream is not None and task.is_sent and not stream.is_closed:
            cancel = pb.PollWorkerTaskResponse()
            cancel.cancel_task.task_id = task.task_id
            stream.write(cancel.SerializeToString())

    def open_stream(
        self,
        register: pb.PollWorkerTaskRegister,
        write: Callable[[bytes], None],
    ) -> WorkerStream:
        """Take in a new stream; it is acknowledged now if its queue has none, or when a task needs it."""
        worker = self._workers.get(register.app_worker_id)
        if worker is None:
            worker = self._workers[register.app_worker_id] = Worker(register.app_worker_id)
        worker.flow_types = frozenset(register.flow_types)
        stream = WorkerStream(worker, register.queue, write)
        worker.streams.add(stream)
        if worker.acknowledged[stream.queue]:
            worker.held.append(stream)
        else:
            self._acknowledge_idle(stream)
        self._pump()
        return stream

    def close_stream(self, stream: WorkerStream) -> Task | None:
        """Forget a stream and return the task it carried."""
        worker, task = stream.worker, stream.task
        stream.is_closed = True
        worker.streams.discard(stream)
        worker.idle.pop(stream, None)
        if stream in worker.held:
            worker.held.remove(stream)
        if stream.is_acknowledged:
            worker.count_acknowledged(stream, -1)
        if task is not None:
            stream.task = None
            self._drop_carrier(task)
            worker.busy -= 1
        if not worker.streams:
            self._workers.pop(worker.worker_id, None)
        elif not worker.acknowledged[stream.queue]:
            spare = next((other for other in worker.held if other.queue == stream.queue), None)
            if spare is not None:
                worker.held.remove(spare)
                self._acknowledge_idle(spare)
        self._pump()
        return task

    def finish(self, stream: WorkerStream) -> Task | None:
        """Note the final answer of a stream; it is idle again. Returns the task it carried."""
        task = stream.task
        if task is not None:
            self._release(stream, task)
            stream.worker.note_success()
            self.answered[task.kind] += 1
            self._pump()
        return task

    def decline(self, stream: WorkerStream, reason: pb.PollWorkerTaskRejectReason) -> Task | None:
        """Note that a Worker declined its task without running any of it.

        The task is not queued again: its source decides that with `resubmit`.
        """
        task = stream.task
        if task is None:
            return None
        self._release(stream, task)
        if reason == pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY:
            delay = stream.worker.note_decline(task.kind, self._loop.time())
            self._loop.call_later(delay, self._pump)
        else:
            # From here on another Worker has the whole dispatch wait to appear.
            task.queued_at = self._loop.time()
            task.excluded.add(stream.worker.worker_id)
        return task

    def resubmit(self, task: Task) -> None:
        """Queue a task again, ahead of the others."""
        task.is_sent = False
        self._backlog(task.run.flow_type).select(task.kind).appendleft(task)
        self._loop.call_soon(self._pump)
        self._arm_sweeper()

    async def drain(self, seconds: float) -> None:
        """Hand out nothing more, and wait until what is running was answered or so many seconds are over."""
        self._is_draining = True
        if self._carriers:
            self._is_idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_idle.wait()

    def stop(self) -> None:
        """Hand out nothing more."""
        self._backlogs.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _backlog(self, flow_type: str) -> _Backlog:
        backlog = self._backlogs.get(flow_type)
        if backlog is None:
            backlog = self._backlogs[flow_type] = _Backlog()
        return backlog

    def _release(self, stream: WorkerStream, task: Task) -> None:
        stream.task = None
        self._drop_carrier(task)
        stream.worker.busy -= 1
        if not stream.is_closed:
            stream.worker.idle[stream] = None

    def _drop_carrier(self, task: Task) -> None:
        self._carriers.pop(task, None)
        if not self._carriers:
            self._is_idle.set()

    def _acknowledge_idle(self, stream: WorkerStream) -> None:
        stream.worker.count_acknowledged(stream, 1)
        stream.worker.idle[stream] = None
        stream.write(_ACKNOWLEDGEMENT)

    def _pump(self) -> None:
        for flow_type in list(self._backlogs):
            self._pump_type(flow_type)

    def _pump_type(self, flow_type: str) -> None:
        backlog = self._backlogs.get(flow_type)
        if backlog is None:
            return
        now = self._loop.time()
        for waiting in (backlog.rpcs, backlog.steps):
            passed_over: list[Task] = []
            while waiting:
                task = waiting[0]
                if task.is_withdrawn:
                    waiting.popleft()
                    continue
                stream = self._pick(task, now)
                if stream is None:
                    if not task.excluded:
                        break
                    passed_over.append(waiting.popleft())
                    continue
                waiting.popleft()
                prepared = self._source.prepare_task(task)
                if prepared is not None:
                    self._assign(task, stream, prepared[0], prepared[1], now)
            waiting.extendleft(reversed(passed_over))
        if not backlog.rpcs and not backlog.steps:
            self._backlogs.pop(flow_type, None)

    def _pick(self, task: Task, now: float) -> WorkerStream | None:
        flow_type = task.run.flow_type
        if self._is_draining:
            return None
        last = self._workers.get(task.run.sticky_worker)
        if last is not None:
            stream = self._offer(last, task, flow_type, now)
            if stream is not None:
                return stream
        if len(self._workers) > 1 or last is None:
            for worker in sorted(self._workers.values(), key=_read_busy):
                stream = self._offer(worker, task, flow_type, now)
                if stream is not None:
                    return stream
        return None

    def _offer(self, worker: Worker, task: Task, flow_type: str, now: float) -> WorkerStream | None:
        if flow_type not in worker.flow_types or worker.worker_id in task.excluded:
            return None
        return worker.find_stream(flow_type) if worker.has_room(task.kind, now) else None

    def _assign(self, task: Task, stream: WorkerStream, message: bytes, sequence: int, now: float) -> None:
        worker = stream.worker
        was_held = not stream.is_acknowledged
        if was_held:
            worker.held.remove(stream)
            worker.count_acknowledged(stream, 1)
        worker.idle.pop(stream, None)
        worker.busy += 1
        stream.task = task
        self._carriers[task] = stream
        task.assigned_at = task.beat_at = now
        task.run.sticky_worker = worker.worker_id

        def send() -> None:
            if stream.task is not task or stream.is_closed:
                return
            if task.is_withdrawn:
                # Nobody has seen it yet, so nobody need be told to stop.
                self._release(stream, task)
                if was_held:
                    worker.idle.pop(stream, None)
                    worker.count_acknowledged(stream, -1)
                    worker.held.appendleft(stream)
                self._pump()
                return
            if was_held:
                # Not a moment earlier: a Worker closes an acknowledged stream that has nothing to do.
                stream.write(_ACKNOWLEDGEMENT)
            task.is_sent = True
            stream.write(message)

        self._call_when_durable(sequence, send)

    def _arm_sweeper(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        if self.sweep(self._loop.time()):
            self._arm_sweeper()

    def sweep(self, now: float) -> bool:
        """Report every task that has exceeded a limit.

        Args:
            now: The time of the event loop.

        Returns:
            Whether there is a task to look at again.
        """
        is_busy = False
        for worker in list(self._workers.values()):
            for stream in list(worker.streams):
                task = stream.task
                if task is None or task.is_withdrawn:
                    continue
                is_busy = True
                if now - task.assigned_at > task.timeout:
                    self._source.note_timeout(task, "method")
                elif task.heartbeat_timeout is not None and now - task.beat_at > task.heartbeat_timeout:
                    self._source.note_timeout(task, "heartbeat")
        for backlog in list(self._backlogs.values()):
            is_busy = True
            for waiting in (backlog.rpcs, backlog.steps):
                self._sweep_waiting(waiting, now)
        return is_busy

    def _sweep_waiting(self, waiting: deque[Task], now: float) -> None:
        late = [
            task
            for task in waiting
            if now - task.queued_at > DISPATCH_WAIT_SECONDS
            and not task.is_withdrawn
            and (task.kind == "rpc" or task.excluded)
            and not self._has_candidate(task)
        ]
        for task in late:
            waiting.remove(task)
            self._source.note_undeliverable(task)

    def _has_candidate(self, task: Task) -> bool:
        return any(
            task.run.flow_type in worker.flow_types and worker.worker_id not in task.excluded
            for worker in self._workers.values()
        )


def _read_busy(worker: Worker) -> int:
    return worker.busy
