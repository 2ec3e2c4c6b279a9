"""One tenant's money runs out, another's does not. Run `python -m examples.spend_limits`."""

import asyncio
import tempfile
from collections.abc import Mapping

from dex_agents import AgentSessionClient, AgentUsage, AgentWorker, SpendCheck, SpendReport
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
)
from dex_agents.engine import LocalEngine
from dex_agents.spend_limits import SpendLimit, SqliteSpendLimiter


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Answer, and say what that cost."""
    return ScriptedModelReply(text="Here you are.", usage=AgentUsage(input_tokens=800, output_tokens=200))


def tenant_of(call: SpendCheck | SpendReport) -> Mapping[str, str]:
    """Return whose money a call is."""
    return {"tenant": call.session_settings["tenant"]}


async def main(folder: str) -> None:
    # A host's sessions and processes share the file; a budget of one turn would be `TurnBudget`.
    limits = {"tenant": SpendLimit(max_tokens=1_500), "host": SpendLimit(max_calls=100)}
    limiter = SqliteSpendLimiter(f"{folder}/spend.db", limits, scopes=tenant_of)
    agent = AgentDefinition(name="a", model=ScriptedModelClient(reply), spend_limiter=limiter)
    flow = create_builtin_agent_session_flow(agent, "Paid")
    async with (
        LocalEngine(f"{folder}/agents.db") as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        for number, tenant in enumerate(["acme", "acme", "acme", "bolt"]):
            session_id = f"s{number}"
            await client.start_session(session_id, session_settings={"tenant": tenant})
            await client.send_user_message(session_id, "Please")
            progress = await client.wait_for_idle(session_id)
            print(tenant, "|", progress.last_turn_error or "answered")
    limiter.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
