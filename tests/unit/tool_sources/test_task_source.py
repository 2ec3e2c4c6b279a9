"""The task server of the session tests, as a tool source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dex_agents.errors import ToolExecutionError
from dex_agents.runner.outcomes import ToolExecutionResult, ToolInputRequested, ToolTaskStarted
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.testing import InvocationLog
from tests.integration.session.task_source import RUN_TASK, TaskServer, TaskSource, UnreachableServerError
from tests.suites.tool_source import Call, ToolSourceSuite, build_call


@pytest.fixture
def log(tmp_path: Path) -> InvocationLog:
    return InvocationLog(tmp_path / "calls.jsonl")


@pytest.fixture
def server(tmp_path: Path, log: InvocationLog) -> TaskServer:
    return TaskServer(tmp_path / "tasks.db", log)


@pytest.fixture
def source(server: TaskServer) -> TaskSource:
    return TaskSource(server)


class TestTaskSource(ToolSourceSuite):
    @pytest.fixture
    def call(self) -> Call:
        return RUN_TASK, '{"polls": 1}'


async def start(source: TaskSource, **script: Any) -> DeferredToolExecution:
    execution = await build_call(source, (RUN_TASK, json.dumps(script)))
    started = await source.execute_deferred_tool_call(execution)
    assert isinstance(started, ToolTaskStarted)
    return replace(execution, task_reference=started.task_reference)


async def test_a_task_is_done_after_its_polls(source: TaskSource, log: InvocationLog) -> None:
    execution = await start(source, polls=2, result="built")
    for _ in range(2):
        assert isinstance(await source.poll_tool_task(execution), ToolTaskStarted)
    for _ in range(2):
        assert await source.poll_tool_task(execution) == ToolExecutionResult("built")
    assert [entry.tool_name for entry in log.read()] == ["start", *["poll"] * 4]


async def test_a_task_asks_and_goes_on_with_the_answer(source: TaskSource, log: InvocationLog) -> None:
    execution = await start(source, polls=0, question="Which region?", result="built in")
    asked = await source.poll_tool_task(execution)
    assert asked == await source.poll_tool_task(execution)
    assert isinstance(asked, ToolInputRequested)
    assert [question.question for question in asked.questions] == ["Which region?"]
    answered = replace(execution, answers={"task": ("north", "south")}, continuation=asked.continuation)
    assert isinstance(await source.poll_tool_task(answered), ToolTaskStarted)
    assert await source.poll_tool_task(answered) == ToolExecutionResult("built in: north, south")
    assert log.count("answer") == 1


async def test_a_server_out_of_reach_keeps_its_tasks(source: TaskSource, server: TaskServer) -> None:
    execution = await start(source, polls=0)
    server.set_reachable(False)
    with pytest.raises(UnreachableServerError):
        await source.poll_tool_task(execution)
    server.set_reachable(True)
    assert await source.poll_tool_task(execution) == ToolExecutionResult("the task is done")


async def test_a_task_that_failed_or_was_cancelled_says_so(source: TaskSource, server: TaskServer) -> None:
    execution = await start(source, polls=0, ends="failed", result="no space left")
    await source.cancel_tool_task(execution)
    with pytest.raises(ToolExecutionError, match="cancelled"):
        await source.poll_tool_task(execution)
    server.forget(execution.idempotency_key)
    execution = await start(source, polls=0, ends="failed", result="no space left")
    with pytest.raises(ToolExecutionError, match="no space left"):
        await source.poll_tool_task(execution)
    assert (await source.reconcile_tool_call(execution)).text == "no space left"
    assert [task.status for task in server.tasks()] == ["failed"]
