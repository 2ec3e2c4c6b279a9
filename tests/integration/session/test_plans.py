"""Plans and plan mode through the client, on the real engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dex_agents import AgentPlan, AgentUserMessage, PlanTodo, texts
from dex_agents.builtin_loop import (
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, build_flow, serve


def _todos(*statuses: str) -> dict[str, Any]:
    return {"todos": [{"task": f"task {n}", "status": status} for n, status in enumerate(statuses, 1)]}


def _plan(*statuses: str) -> tuple[str, dict[str, Any]]:
    return ("write_todos", _todos(*statuses))


@pytest.mark.requirement("plan-replaces")
async def test_each_plan_replaces_the_one_before_and_is_done_when_nothing_is_open(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["write_todos"])
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        plans: list[AgentPlan | None] = []
        for statuses in (("pending", "in_progress"), ("completed", "cancelled")):
            await ask(client, "s", asking(_plan(*statuses)))
            plans.append((await client.get_agent_snapshot("s")).plan)
        wrong: list[tuple[str, Any]] = [
            _plan("in_progress", "in_progress"),
            ("write_todos", {"todos": []}),
            _plan("later"),
        ]
        await ask(client, "s", asking(*wrong))
        await ask(client, "s", asking(_plan("pending"), _plan("completed")))
        snapshot = await client.get_agent_snapshot("s")
    assert plans == [
        AgentPlan(1, "active", (PlanTodo("1", "task 1", "pending"), PlanTodo("2", "task 2", "in_progress"))),
        AgentPlan(2, "done", (PlanTodo("1", "task 1", "completed"), PlanTodo("2", "task 2", "cancelled"))),
    ]
    refused = [call.error for call in snapshot.tool_calls if call.status == "failed"]
    assert [error and error.startswith("invalid todos: ") for error in refused] == [True] * 4
    assert refused[-1] == texts.invalid_todos(texts.SECOND_WRITE_TODOS)
    assert snapshot.plan == AgentPlan(3, "active", (PlanTodo("1", "task 1", "pending"),))


@pytest.mark.requirement("plan-mode")
async def test_a_plan_is_written_reviewed_and_approved_once_before_anything_runs(tmp_path: Path) -> None:
    ran: list[str] = []
    requests: list[ModelRequest] = []

    @function_tool(effect=ToolEffect.IDEMPOTENT_WRITE)
    async def build() -> str:
        """Build."""
        ran.append("built")
        return "built"

    def script(request: ModelRequest) -> ScriptedModelReply:
        requests.append(request)
        offered = [tool.name for tool in request.tools]
        results = ScriptedModelClient.tool_results(request)
        if offered == ["write_todos"]:
            if results:
                return ScriptedModelReply(text="here is my plan")
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("write_todos", _todos("pending")),))
        if results:
            return ScriptedModelReply(text="done")
        return ScriptedModelReply(
            tool_calls=(ScriptedToolCall("build"), ScriptedToolCall("write_todos", _todos("completed")))
        )

    flow = build_flow([build], script, built_in_tools=["write_todos"], plan_mode_enabled=True)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=AgentUserMessage("build it", plan_mode=True))
        await client.wait_for_idle("s")
        draft = (await client.get_agent_snapshot("s")).plan
        assert draft is not None
        assert (draft.revision, draft.status, ran) == (1, "draft", [])
        assert not await client.approve_plan("s", 7)
        approvals = (client.approve_plan("s", draft.revision) for _ in range(10))
        assert sum(await asyncio.gather(*approvals)) == 1
        await client.wait_for_idle("s")
        assert not await client.approve_plan("s", draft.revision)
        snapshot = await client.get_agent_snapshot("s")
    assert ran == ["built"]
    assert snapshot.plan is not None
    assert (snapshot.plan.revision, snapshot.plan.status) == (2, "done")
    assert texts.plan_approved(1) in [message.text for message in snapshot.messages]
    assert any("task 1" in text for text in ScriptedModelClient.user_texts(requests[2]))


async def test_only_the_latest_draft_can_be_approved(tmp_path: Path) -> None:
    flow = build_flow(built_in_tools=["write_todos"], plan_mode_enabled=True)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        for _ in range(2):
            assert await client.send_user_message(
                "s", AgentUserMessage(asking(_plan("pending")), plan_mode=True)
            )
        await client.wait_for_idle("s")
        assert not await client.approve_plan("s", 1)
        assert await client.approve_plan("s", 2)
        await client.wait_for_idle("s")
