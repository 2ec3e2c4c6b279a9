"""One inbox for everything that waits on a person. Run `python -m examples.waiting_sessions`."""

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

CALLS = {
    "pay": ScriptedToolCall("pay", {"euros": 40}),
    "ask": ScriptedToolCall("ask_user", {"questions": [{"id": "who", "question": "Who is it for?"}]}),
    "wait": ScriptedToolCall("durable_wait", {"seconds": 3600, "reason": "the shop opens"}),
}


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros} EUR"


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Do what the user named."""
    results = ScriptedModelClient.tool_results(request)
    if results:
        return ScriptedModelReply(text=results[-1].output)
    return ScriptedModelReply(tool_calls=(CALLS[ScriptedModelClient.user_texts(request)[-1]],))


async def main(database: str) -> None:
    model, built_in = ScriptedModelClient(reply), ["ask_user", "durable_wait"]
    agent = AgentDefinition(name="clerk", model=model, tools=[pay], built_in_tools=built_in)
    flow = create_builtin_agent_session_flow(agent, "Clerk")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        for session_id in CALLS:
            await client.start_session(session_id, first_message=session_id)
        for session_id in ("pay", "ask"):
            await client.wait_for_attention(session_id)
        waiting = sorted([one async for one in client.waiting_sessions()], key=lambda one: one.session_id)
        for session in waiting:
            for interrupt in session.interrupts:
                print(session.session_id, interrupt.kind, interrupt.tool_name, interrupt.arguments)
                if interrupt.kind == "approval":
                    await client.resolve_interrupt(session.session_id, interrupt.interrupt_id, "approve")
                else:
                    await client.answer_question(session.session_id, interrupt.interrupt_id, {"who": "Ada"})
        for session_id in ("pay", "ask"):
            await client.wait_for_idle(session_id)
            print(session_id, "->", (await client.get_agent_snapshot(session_id)).messages[-1].text)
        print("waiting on a person now:", [one.session_id async for one in client.waiting_sessions()])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
