"""A tool source whose one tool starts tasks on a server that outlives every Worker: a SQLite file.

`run_task` takes the script of its task as arguments: how many polls it takes, what it asks on the way and how
it ends. Each call of the server is recorded in an `InvocationLog` before it is served, under `start`, `poll`,
`answer`, `cancel` or `look_up`, also when the server is out of reach.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dex_agents.errors import ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.runner.outcomes import (
    ToolExecutionResult,
    ToolInputRequested,
    ToolOutcome,
    ToolReconciliation,
    ToolTaskStarted,
)
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.testing import InvocationLog
from dex_agents.tool_sources.contract import SourceTool
from dex_agents.wire.interrupts import AgentQuestion
from dex_agents.wire.tool_calls import Answer, ToolEffect

RUN_TASK: Final = "run_task"
TaskStatus = Literal["running", "waiting_for_answer", "done", "failed", "cancelled"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tasks (
    reference TEXT PRIMARY KEY,
    script TEXT NOT NULL,
    status TEXT NOT NULL,
    polls INTEGER NOT NULL,
    answer TEXT
);
CREATE TABLE IF NOT EXISTS server (reachable INTEGER NOT NULL);
INSERT INTO server SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM server);
"""
_SELECT: Final = "SELECT reference, script, status, polls, answer FROM tasks"


class TaskScript(msgspec.Struct, frozen=True):
    """What a task does.

    Attributes:
        polls: Polls that find it running before the one that finds it at its end.
        question: Asked at the first poll; the task goes on when it has the answer.
        ends: How it ends.
        result: Its output, or why it failed; an answer is appended.
    """

    polls: int = 1
    question: str | None = None
    ends: Literal["done", "failed"] = "done"
    result: str = "the task is done"


class Task(msgspec.Struct, frozen=True):
    """A task as its server keeps it."""

    reference: str
    script: TaskScript
    status: TaskStatus
    polls: int
    answer: str | None


class UnreachableServerError(RuntimeError):
    """Nobody answered."""


class TaskServer:
    """The server of the tasks; any number of processes may open the file at once."""

    def __init__(self, path: Path, log: InvocationLog) -> None:
        self._path = path
        self._log = log
        with self._connect() as connection:
            connection.executescript(_SCHEMA)

    def set_reachable(self, reachable: bool) -> None:
        """Say whether the server answers from now on; tasks stay what they are."""
        with self._connect() as connection:
            connection.execute("UPDATE server SET reachable = ?", (reachable,))

    def forget(self, reference: str) -> None:
        """Lose a task."""
        with self._connect() as connection:
            connection.execute("DELETE FROM tasks WHERE reference = ?", (reference,))

    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks in the order in which they were started."""
        with self._connect() as connection:
            return tuple(_read_task(row) for row in connection.execute(f"{_SELECT} ORDER BY rowid"))

    def start(self, call: DeferredToolExecution, script: TaskScript) -> str:
        """Start a task, once for one idempotency key."""
        with self._serve("start", call) as connection:
            connection.execute(
                "INSERT OR IGNORE INTO tasks VALUES (?, ?, 'running', 0, NULL)",
                (call.idempotency_key, msgspec.json.encode(script).decode()),
            )
            return call.idempotency_key

    def poll(self, call: DeferredToolExecution) -> Task | None:
        """Let a running task go on by one poll."""
        with self._serve("poll", call) as connection:
            task = _find_task(connection, call.task_reference)
            if task is None or task.status != "running":
                return task
            status: TaskStatus = "running"
            if task.script.question is not None and task.answer is None:
                status = "waiting_for_answer"
            elif task.polls >= task.script.polls:
                status = task.script.ends
            connection.execute(
                "UPDATE tasks SET status = ?, polls = polls + 1 WHERE reference = ?", (status, task.reference)
            )
            return _find_task(connection, task.reference)

    def answer(self, call: DeferredToolExecution, answer: str) -> None:
        """Give a task the answer it waits for; one that does not wait keeps what it has."""
        with self._serve("answer", call) as connection:
            connection.execute(
                "UPDATE tasks SET answer = ?, status = 'running'"
                " WHERE reference = ? AND status = 'waiting_for_answer'",
                (answer, call.task_reference),
            )

    def cancel(self, call: DeferredToolExecution) -> None:
        """Stop a task that has not ended."""
        with self._serve("cancel", call) as connection:
            connection.execute(
                "UPDATE tasks SET status = 'cancelled'"
                " WHERE reference = ? AND status IN ('running', 'waiting_for_answer')",
                (call.task_reference,),
            )

    def look_up(self, call: DeferredToolExecution) -> Task | None:
        """Return the task of an idempotency key."""
        with self._serve("look_up", call) as connection:
            return _find_task(connection, call.idempotency_key)

    @contextmanager
    def _serve(self, name: str, call: DeferredToolExecution) -> Generator[sqlite3.Connection, None, None]:
        arguments: dict[str, Any] = {"task_reference": call.task_reference}
        self._log.record(
            name, idempotency_key=call.idempotency_key, arguments=arguments, attempt=call.attempt
        )
        with self._connect() as connection:
            if not connection.execute("SELECT reachable FROM server").fetchone()[0]:
                raise UnreachableServerError("the task server does not answer")
            yield connection

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection, None, None]:
        connection = sqlite3.connect(self._path, timeout=30)
        try:
            with connection:
                yield connection
        finally:
            connection.close()


class TaskSource:
    """Offers `run_task`."""

    def __init__(self, server: TaskServer, *, effect: ToolEffect = ToolEffect.IDEMPOTENT_WRITE) -> None:
        self._server = server
        self._effect = effect

    @property
    def name(self) -> str:
        return "tasks"

    async def list_tools(self) -> Sequence[SourceTool]:
        return [
            SourceTool(
                name=RUN_TASK,
                description="Run a task and wait for its end.",
                parameters={
                    "type": "object",
                    "properties": {
                        "polls": {"type": "integer", "minimum": 0},
                        "question": {"type": "string"},
                        "ends": {"enum": ["done", "failed"]},
                        "result": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
                effect=self._effect,
                requires_approval=False,
                reconcilable=True,
                reference=RUN_TASK,
            )
        ]

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        if call.tool_source_reference != RUN_TASK:
            raise ToolExecutionError(f"the task server has no tool {call.tool_name!r}")
        reference = self._server.start(call, msgspec.json.decode(call.arguments, type=TaskScript))
        return ToolTaskStarted(reference, poll_after_seconds=1)

    async def poll_tool_task(self, call: DeferredToolExecution) -> ToolOutcome:
        task = self._server.poll(call)
        if task is None:
            text = "the task server does not know this task"
            raise ToolOutcomeUnknownError(text) if call.effect.is_write else ToolExecutionError(text)
        match task.status:
            case "running":
                return ToolTaskStarted(task.reference, poll_after_seconds=1)
            case "waiting_for_answer":
                if (answer := call.answers.get("task")) is not None:
                    self._server.answer(call, _as_text(answer))
                    return ToolTaskStarted(task.reference, poll_after_seconds=1)
                question = AgentQuestion(id="task", question=task.script.question or "")
                return ToolInputRequested((question,), continuation="waits")
            case "done":
                return ToolExecutionResult(_ending(task))
            case "failed" | "cancelled":
                raise ToolExecutionError(
                    _ending(task) if task.status == "failed" else "the task was cancelled"
                )

    async def cancel_tool_task(self, call: DeferredToolExecution) -> None:
        self._server.cancel(call)

    async def reconcile_tool_call(self, call: DeferredToolExecution) -> ToolReconciliation:
        task = self._server.look_up(call)
        if task is None:
            return ToolReconciliation("failed", "no task was started")
        match task.status:
            case "done":
                return ToolReconciliation("succeeded", _ending(task))
            case "failed":
                return ToolReconciliation("failed", _ending(task))
            case "running" | "waiting_for_answer" | "cancelled":
                return ToolReconciliation("still_unknown")


def _find_task(connection: sqlite3.Connection, reference: str | None) -> Task | None:
    row = connection.execute(f"{_SELECT} WHERE reference = ?", (reference,)).fetchone()
    return None if row is None else _read_task(row)


def _read_task(row: tuple[str, str, TaskStatus, int, str | None]) -> Task:
    reference, text, status, polls, answer = row
    return Task(reference, msgspec.json.decode(text, type=TaskScript), status, polls, answer)


def _ending(task: Task) -> str:
    return task.script.result if task.answer is None else f"{task.script.result}: {task.answer}"


def _as_text(answer: Answer) -> str:
    return answer if isinstance(answer, str) else ", ".join(answer)
