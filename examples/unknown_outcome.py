"""Two payments are cut off: one is looked up, the other settled. Run `python -m examples.unknown_outcome`."""

import asyncio
import tempfile
from typing import Any

import dex_agents as agents
from dex_agents.builtin_loop import AgentDefinition, ModelRequest, ToolCallContext, function_tool
from dex_agents.builtin_loop.flow import create_builtin_agent_session_flow
from dex_agents.engine import LocalEngine
from dex_agents.testing import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall

BANK: set[str] = set()
"""The keys of the payments that the bank has made."""


def look_up(arguments: dict[str, Any], context: ToolCallContext) -> agents.ToolReconciliation:
    """Ask the bank; it says nothing about payments by post."""
    if context.idempotency_key not in BANK:
        return agents.ToolReconciliation.still_unknown()
    return agents.ToolReconciliation.succeeded(f"paid {arguments['amount']} EUR")


@function_tool(effect=agents.ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False, reconcile=look_up)
async def pay(amount: int, by_post: bool, context: ToolCallContext) -> str:
    """Pay; the answer of the bank is lost."""
    if not by_post:
        BANK.add(context.idempotency_key)
    raise agents.ToolOutcomeUnknownError("the connection was cut")


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Pay twice, then say what is known of it."""
    if results := ScriptedModelClient.tool_results(request):
        return ScriptedModelReply(text=" / ".join(result.output for result in results))
    payments = [{"amount": 3, "by_post": False}, {"amount": 5, "by_post": True}]
    return ScriptedModelReply(tool_calls=tuple(ScriptedToolCall("pay", payment) for payment in payments))


async def main(database: str) -> None:
    agent = AgentDefinition(name="a", model=ScriptedModelClient(reply), tools=[pay])
    flow = create_builtin_agent_session_flow(agent, "Cashier")
    async with (
        LocalEngine(database) as engine,
        agents.AgentWorker(flow, server_address=engine.server_address),
        agents.AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1", first_message="Pay both.")
        await client.wait_for_idle("s1")
        for call in (await client.get_agent_snapshot("s1")).tool_calls:
            print(call.status, "|", call.output)
            if call.status == "outcome_unknown":
                await client.settle_tool_outcome("s1", call.tool_call_id, "succeeded", "the letter came")
        print((await client.get_agent_snapshot("s1")).tool_calls[-1].output)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
