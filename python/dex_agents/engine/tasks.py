"""Tasks: what a Worker can be asked to do, and who owns it."""

from __future__ import annotations

import asyncio
import uuid
from itertools import count
from typing import Literal, Protocol

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.state import Run, StepExecution

TaskKind = Literal["step", "rpc"]
TimeoutReason = Literal["method", "heartbeat"]

# A frame of an earlier engine must not name a task of this one, and a number is cheaper than a UUID a task.
_TASK_PREFIX = f"{uuid.uuid4().hex}-"
_task_numbers = count()


class Task:
    """One attempt of a Step method, or one RPC, on its way to a Worker.

    Attributes:
        task_id: Names it towards the Worker.
        kind: Step or RPC.
        run: The run it belongs to.
        execution: The execution it is an attempt of; `None` for an RPC.
        request: The RPC to invoke; `None` for a Step.
        reply: Where the answer of an RPC goes; `None` for a Step.
        timeout: Seconds that one assignment may take.
        heartbeat_timeout: Longest silence in seconds, or `None` where there is no such limit.
        lock_keys: Attribute locks held for it.
        is_withdrawn: Nobody wants it any more; it is dropped where it waits, and its answer is ignored.
        is_sent: It was written to its stream, so the Worker may have run some of it.
    """

    __slots__ = (
        "assigned_at",
        "beat_at",
        "excluded",
        "execution",
        "heartbeat_timeout",
        "is_sent",
        "is_withdrawn",
        "kind",
        "lock_keys",
        "queued_at",
        "reply",
        "request",
        "run",
        "task_id",
        "timeout",
    )

    def __init__(
        self,
        run: Run,
        *,
        execution: StepExecution | None = None,
        request: pb.InvokeRPCRequest | None = None,
        reply: asyncio.Future[pb.InvokeWorkerRPCResponse] | None = None,
        timeout: float,
        heartbeat_timeout: float | None = None,
        lock_keys: frozenset[str] = frozenset(),
    ) -> None:
        self.task_id = f"{_TASK_PREFIX}{next(_task_numbers):x}"
        self.kind: TaskKind = "rpc" if execution is None else "step"
        self.run = run
        self.execution = execution
        self.request = request
        self.reply = reply
        self.timeout = timeout
        self.heartbeat_timeout = heartbeat_timeout
        self.lock_keys = lock_keys
        self.excluded: set[str] = set()
        self.is_withdrawn = False
        self.is_sent = False
        self.queued_at = 0.0
        self.assigned_at = 0.0
        self.beat_at = 0.0


class TaskSource(Protocol):
    """Who owns the tasks. Every method is called on the event loop and returns at once."""

    def prepare_task(self, task: Task) -> tuple[bytes, int] | None:
        """Build what the Worker is sent.

        Returns:
            The encoded message, and the journal sequence that must be durable before it leaves; or `None`
            when the task is not wanted now, in which case the source keeps it or has dropped it.
        """
        ...

    def note_timeout(self, task: Task, reason: TimeoutReason) -> None:
        """The Worker has exceeded a limit; the task is no longer the dispatcher's."""
        ...

    def note_undeliverable(self, task: Task) -> None:
        """No Worker can take the task; it is no longer the dispatcher's."""
        ...
