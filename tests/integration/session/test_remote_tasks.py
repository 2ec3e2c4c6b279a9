"""Tasks on another server, and look-ups of lost calls, through the client on the real engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dex_agents import AgentSessionClient, ToolOutcomeUnknownError, ToolReconciliation
from dex_agents.builtin_loop import ToolCallContext, function_tool
from dex_agents.testing import InvocationLog
from dex_agents.wire.tool_calls import AgentToolCall, ToolEffect
from tests.integration.session.desk import answers, asking, build_flow, serve, wait_for_interrupts
from tests.integration.session.task_source import TaskServer, TaskSource


class Desk:
    """A session whose tool starts tasks, and the server of the tasks."""

    def __init__(self, client: AgentSessionClient, server: TaskServer, log: InvocationLog) -> None:
        self.client = client
        self.server = server
        self.log = log

    async def start(self, **script: Any) -> None:
        await self.client.start_session("s", first_message=asking(("run_task", script)))

    async def call(self) -> AgentToolCall:
        (call,) = (await self.client.get_agent_snapshot("s")).tool_calls
        return call

    async def wait_until(self, status: str) -> AgentToolCall:
        while (call := await self.first_call()) is None or call.status != status:
            pass
        return call

    async def first_call(self) -> AgentToolCall | None:
        calls = (await self.client.get_agent_snapshot("s")).tool_calls
        return calls[0] if calls else None


@asynccontextmanager
async def _desk(
    folder: Path, effect: ToolEffect = ToolEffect.IDEMPOTENT_WRITE, **fields: Any
) -> AsyncGenerator[Desk, None]:
    log = InvocationLog(folder / "log.db")
    server = TaskServer(folder / "tasks.db", log)
    flow = build_flow(tool_sources=[TaskSource(server, effect=effect)], **fields)
    async with serve(folder / "a.db", flow) as client:
        yield Desk(client, server, log)


@pytest.mark.requirement("remote-task")
async def test_a_task_is_started_once_and_polled_until_it_ends(tmp_path: Path) -> None:
    async with _desk(tmp_path) as desk:
        await desk.start(polls=2)
        polling = await desk.wait_until("polling")
        assert polling.task_reference == f"s/turn-1/{polling.tool_call_id}"
        (task,) = (await desk.client.get_progress("s")).interrupts
        assert task.kind == "task"
        assert [one.session_id async for one in desk.client.waiting_sessions("task")] == ["s"]
        assert [one async for one in desk.client.waiting_sessions()] == []
        await desk.client.wait_for_idle("s")
        call = await desk.call()
        assert await answers(desk.client, "s") == ["the task is done"]
    assert (call.status, call.output) == ("succeeded", "the task is done")
    assert desk.log.count("start") == 1
    assert desk.log.count("poll") == 3


async def test_what_a_task_asks_becomes_a_question_and_its_answer_reaches_the_task(tmp_path: Path) -> None:
    async with _desk(tmp_path) as desk:
        await desk.start(polls=1, question="Which size?")
        (asked,) = await wait_for_interrupts(desk.client, "s", 1)
        assert (asked.kind, asked.questions[0].question) == ("question", "Which size?")
        assert await desk.client.answer_question("s", asked.interrupt_id, {"task": "XL"})
        await desk.client.wait_for_idle("s")
        assert (await desk.call()).output == "the task is done: XL"


@pytest.mark.parametrize(
    ("effect", "status"),
    [(ToolEffect.READ, "failed"), (ToolEffect.IDEMPOTENT_WRITE, "outcome_unknown")],
)
async def test_a_task_whose_server_is_gone_is_given_up_after_three_polls(
    tmp_path: Path, effect: ToolEffect, status: str
) -> None:
    async with _desk(tmp_path, effect) as desk:
        await desk.start(polls=1000)
        await desk.wait_until("polling")
        desk.server.set_reachable(False)
        await desk.client.wait_for_idle("s")
        assert (await desk.call()).status == status


@pytest.mark.parametrize("question", [None, "Sure?"])
async def test_cancelling_a_turn_cancels_its_task_at_the_server(tmp_path: Path, question: str | None) -> None:
    async with _desk(tmp_path) as desk:
        await desk.start(polls=1000, **({} if question is None else {"question": question}))
        await desk.wait_until("polling" if question is None else "waiting_for_answer")
        assert await desk.client.cancel_turn("s")
        await desk.client.wait_for_idle("s")
        call = await desk.call()
        assert [task.status for task in desk.server.tasks()] == ["cancelled"]
    assert call.status == "outcome_unknown"


async def test_steering_leaves_a_running_task_and_abandons_one_that_asks(tmp_path: Path) -> None:
    async with _desk(tmp_path) as desk:
        await desk.start(polls=1)
        await desk.wait_until("polling")
        assert await desk.client.steer_user_message("s", "hurry")
        await desk.client.wait_for_idle("s")
        assert (await desk.call()).status == "succeeded"
        await desk.client.start_session("t", first_message=asking(("run_task", {"question": "Sure?"})))
        await wait_for_interrupts(desk.client, "t", 1)
        assert await desk.client.steer_user_message("t", "never mind")
        await desk.client.wait_for_idle("t")
        (call,) = (await desk.client.get_agent_snapshot("t")).tool_calls
        assert [task.status for task in desk.server.tasks()] == ["done", "cancelled"]
    assert call.status == "outcome_unknown"


@pytest.mark.requirement("reconcile-first")
@pytest.mark.parametrize(
    ("found", "status", "text"),
    [
        (ToolReconciliation("succeeded", "it was paid"), "succeeded", "it was paid"),
        (ToolReconciliation("failed", "it was refused"), "failed", "it was refused"),
        (ToolReconciliation("still_unknown"), "outcome_unknown", "no answer"),
        (RuntimeError("the look-up is down"), "outcome_unknown", "no answer"),
    ],
    ids=["succeeded", "failed", "still_unknown", "look-up fails"],
)
async def test_a_lost_call_is_looked_up_before_its_outcome_is_called_unknown(
    tmp_path: Path, found: ToolReconciliation | RuntimeError, status: str, text: str
) -> None:
    sent: list[str] = []
    looked_up: list[str] = []

    async def look_up(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        looked_up.append(context.idempotency_key)
        if isinstance(found, RuntimeError):
            raise found
        return found

    async def pay(arguments: dict[str, Any], context: ToolCallContext) -> str:
        sent.append(context.idempotency_key)
        raise ToolOutcomeUnknownError("no answer")

    tool = function_tool(
        name="pay",
        description="Pay.",
        parameters={"type": "object"},
        execute=pay,
        effect=ToolEffect.NON_IDEMPOTENT_WRITE,
        requires_approval=False,
        reconcile=look_up,
    )
    async with serve(tmp_path / "a.db", build_flow([tool])) as client:
        await client.start_session("s", first_message=asking(("pay", {})))
        await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert (call.status, call.output or call.error) == (status, text)
    assert len(sent) == 1
    assert set(looked_up) == set(sent)
    assert len(looked_up) == (3 if isinstance(found, RuntimeError) else 1)
    known = status != "outcome_unknown"
    assert (call.settlement is not None and call.settlement.settled_by == "reconcile") is known


async def test_many_tasks_at_once_each_end_once(tmp_path: Path) -> None:
    async with _desk(tmp_path) as desk:
        wanted = [("run_task", {"polls": number % 3, "result": f"r{number}"}) for number in range(12)]
        await desk.client.start_session("s", first_message=asking(*wanted))
        await desk.client.wait_for_idle("s")
        calls = (await desk.client.get_agent_snapshot("s")).tool_calls
    assert [call.output for call in calls] == [f"r{number}" for number in range(12)]
    assert desk.log.count("start") == 12
