"""Connected Workers, their streams, and what was learned about them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Literal

from dex_agents.engine.tasks import Task, TaskKind

SUCCESSES_PER_RAISE = 200
"""Answers after which the learned capacity of a Worker is raised by one."""

FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.1


class Worker:
    """A connected Worker process and what was learned about it.

    Attributes:
        worker_id: The name it gave itself.
        flow_types: Flow types it serves.
        streams: Its open streams.
        idle: Its acknowledged streams without a task, the longest idle first.
        held: Its streams that wait for an acknowledgement, oldest first.
        acknowledged: How many of its streams are acknowledged, by queue.
        busy: Tasks in flight.
        limit: Tasks it is believed to take at a time.
    """

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.flow_types: frozenset[str] = frozenset()
        self.streams: set[WorkerStream] = set()
        self.idle: dict[WorkerStream, None] = {}
        self.held: deque[WorkerStream] = deque()
        self.acknowledged = Counter[str]()
        self.busy = 0
        self.limit: int | None = None
        self._successes = 0
        self._is_full_for_rpcs = False
        self._paused_until = 0.0
        self._pause = FIRST_PAUSE_SECONDS

    def has_room(self, kind: TaskKind, now: float) -> bool:
        """Tell whether another task is likely to be accepted."""
        if now < self._paused_until:
            return False
        if kind == "rpc":
            # With nothing in flight no answer will come to say that there is room again.
            return not self._is_full_for_rpcs or not self.busy
        return self.limit is None or self.busy < self.limit

    def find_stream(self, flow_type: str) -> WorkerStream | None:
        """Return the longest idle stream that may carry a task of a Flow type, or else a held one.

        Of the held ones, one of the queue with the fewest acknowledged streams: a Worker closes what a queue
        has too many of, and opening another costs it more than a task.
        """
        for stream in self.idle:
            if stream.serves(flow_type):
                return stream
        held = [stream for stream in self.held if stream.serves(flow_type)]
        return min(held, key=lambda stream: self.acknowledged[stream.queue], default=None)

    def count_acknowledged(self, stream: WorkerStream, change: Literal[1, -1]) -> None:
        """Count a stream as acknowledged, or no longer."""
        stream.is_acknowledged = change > 0
        self.acknowledged[stream.queue] += change

    def note_success(self) -> None:
        """A task was answered."""
        self._is_full_for_rpcs = False
        self._pause = FIRST_PAUSE_SECONDS
        self._successes += 1
        if self.limit is not None and self._successes % SUCCESSES_PER_RAISE == 0:
            self.limit += 1

    def note_decline(self, kind: TaskKind, now: float) -> float:
        """A task was declined for lack of capacity. Returns the seconds after which to try again."""
        self._successes = 0
        if self.busy and kind == "step":
            self.limit = self.busy
        elif self.busy:
            self._is_full_for_rpcs = True
        else:
            # Nothing is in flight, so the Worker is draining or still tidying up: ask again, less and less
            # often.
            self._paused_until = now + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return max(FIRST_PAUSE_SECONDS, self._paused_until - now)


class WorkerStream:
    """One open stream of a Worker.

    Attributes:
        worker: The Worker it belongs to.
        queue: The queue it polls: a Flow type, or the Worker itself.
        is_acknowledged: The Worker counts it as registered.
        is_closed: Nothing more may be written.
        task: The task it carries.
    """

    __slots__ = ("is_acknowledged", "is_closed", "queue", "task", "worker", "write")

    def __init__(self, worker: Worker, queue: str, write: Callable[[bytes], None]) -> None:
        self.worker = worker
        self.queue = queue
        self.write = write
        self.is_acknowledged = False
        self.is_closed = False
        self.task: Task | None = None

    def serves(self, flow_type: str) -> bool:
        """Tell whether a task of a Flow type may travel on it."""
        return self.queue in {flow_type, self.worker.worker_id}
