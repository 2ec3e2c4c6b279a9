"""A plan is written, reviewed, approved and carried out. Run `python -m examples.plan_mode`."""

import asyncio
import tempfile

from dex_agents import AgentSessionClient, AgentUserMessage, AgentWorker
from dex_agents.builtin_loop import AgentDefinition, ModelRequest, create_builtin_agent_session_flow
from dex_agents.engine import LocalEngine
from dex_agents.testing import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall

TASKS = ["Count the chairs", "Order what is missing"]


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Write the plan in a turn that plans; when it is approved, work through it."""
    is_planning = [tool.name for tool in request.tools] == ["write_todos"]
    done = len(ScriptedModelClient.tool_results(request))
    if done > (0 if is_planning else len(TASKS) - 1):
        return ScriptedModelReply(text="Please review the plan." if is_planning else "All done.")
    finished = 0 if is_planning else done + 1
    todos = [
        {"task": task, "status": "completed" if number < finished else "pending"}
        for number, task in enumerate(TASKS)
    ]
    return ScriptedModelReply(tool_calls=(ScriptedToolCall("write_todos", {"todos": todos}),))


async def show(client: AgentSessionClient) -> int:
    """Print the answer and the plan; return the plan's revision."""
    snapshot = await client.get_agent_snapshot("s1")
    assert snapshot.plan is not None
    print(snapshot.messages[-1].text)
    print(snapshot.plan.status, *(f"| {todo.status}: {todo.task}" for todo in snapshot.plan.todos))
    return snapshot.plan.revision


async def main(database: str) -> None:
    model, built_in = ScriptedModelClient(reply), ["write_todos", "ask_user"]
    agent = AgentDefinition(name="a", model=model, built_in_tools=built_in, plan_mode_enabled=True)
    flow = create_builtin_agent_session_flow(agent, "Planner")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        wish = AgentUserMessage("Get the hall ready.", plan_mode=True)
        await client.start_session("s1", first_message=wish)
        await client.wait_for_idle("s1")
        await client.approve_plan("s1", await show(client))
        await client.wait_for_idle("s1")
        await show(client)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
