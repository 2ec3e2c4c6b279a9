"""A turn ends with its decision, or goes on until there is one. Run `python -m examples.continuation`."""

import asyncio
import tempfile

from dex_agents import AgentSessionClient, AgentWorker, ToolEffect
from dex_agents.builtin_loop import (
    AgentDefinition,
    ContinueTurn,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    TurnContinuation,
    TurnContinuationContext,
    create_builtin_agent_session_flow,
    function_tool,
)
from dex_agents.engine import LocalEngine


@function_tool(effect=ToolEffect.IDEMPOTENT_WRITE)
async def submit_decision() -> str:
    """Approve the request."""
    return "approved"


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Think aloud, and decide only when told to."""
    if "Decide now." in ScriptedModelClient.user_texts(request):
        return ScriptedModelReply(tool_calls=(ScriptedToolCall("submit_decision"),))
    return ScriptedModelReply(text="It looks reasonable.")


def decide(iteration: TurnContinuationContext) -> TurnContinuation:
    """End with the decision; ask for it when the model only talks."""
    if any(result.tool_name == "submit_decision" for result in iteration.tool_results):
        return "end"
    return ContinueTurn("Decide now.")


async def main(database: str) -> None:
    model, tools = ScriptedModelClient(reply), [submit_decision]
    agent = AgentDefinition(name="a", model=model, tools=tools, decide_turn_continuation=decide)
    flow = create_builtin_agent_session_flow(agent, "Approvals")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1", first_message="May I buy a desk?")
        await client.wait_for_idle("s1")
        snapshot = await client.get_agent_snapshot("s1")
        for message in snapshot.messages:
            print(f"{message.role}: {message.text or message.tool_output or '(calls submit_decision)'}")
        print(snapshot.turn_count, "turn,", snapshot.usage.model_calls, "model calls")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
