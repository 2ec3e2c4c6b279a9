"""The user changes their mind while the agent works. Run `python -m examples.steering`."""

import asyncio
import tempfile

from dex_agents import AgentSessionClient, AgentWorker, ToolEffect
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    create_builtin_agent_session_flow,
    function_tool,
)
from dex_agents.engine import LocalEngine


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
async def order_pizza(kind: str) -> str:
    """Order a pizza."""
    return f"a {kind} is on its way"


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Order what the user named last; say what came of it."""
    results, wish = ScriptedModelClient.tool_results(request), ScriptedModelClient.user_texts(request)[-1]
    if results:
        return ScriptedModelReply(text=results[-1].output)
    return ScriptedModelReply(tool_calls=(ScriptedToolCall("order_pizza", {"kind": wish}),))


async def main(database: str) -> None:
    agent = AgentDefinition(name="waiter", model=ScriptedModelClient(reply), tools=[order_pizza])
    flow = create_builtin_agent_session_flow(agent, "Waiter")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("table-4", first_message="Quattro Stagioni")
        (asked,) = (await client.wait_for_attention("table-4")).interrupts
        await client.send_user_message("table-4", "Tiramisu")  # waits for its own turn
        await client.steer_user_message("table-4", "Margherita")  # joins the turn that runs
        (again,) = (await client.wait_for_attention("table-4")).interrupts
        late = await client.resolve_interrupt("table-4", asked.interrupt_id, "approve")
        print("the first order can still be approved:", late)
        print("queued:", [message.text for message in await client.list_queued_messages("table-4")])
        await client.withdraw_message("table-4", (await client.list_queued_messages("table-4"))[0].message_id)
        await client.resolve_interrupt("table-4", again.interrupt_id, "approve")
        await client.wait_for_idle("table-4")
        snapshot = await client.get_agent_snapshot("table-4")
        print(snapshot.turn_count, "turn:", snapshot.messages[-1].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
