"""A session changes its model and comes back to it. Run `python -m examples.session_settings`."""

import asyncio
import tempfile
from collections.abc import Mapping
from typing import Any

from dex_agents import AgentSessionClient, AgentWorker
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelClient,
    ModelOutputItem,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
)
from dex_agents.engine import LocalEngine


def build_model(name: str) -> ModelClient:
    """Return a model that says who it is, and how much of its own output it got back."""

    def reply(request: ModelRequest) -> ScriptedModelReply:
        own = sum(isinstance(item, ModelOutputItem) and item.item is not None for item in request.items)
        text = f"{name}: I see {own} of my own answers as I gave them."
        return ScriptedModelReply(text=text, item='{"signed": "by ' + name + '"}')

    return ScriptedModelClient(reply, provider=name)


MODELS = {"swift": build_model("swift"), "deep": build_model("deep")}


def choose_model(settings: Mapping[str, Any]) -> ModelClient:
    return MODELS[settings.get("model", "swift")]


async def main(database: str) -> None:
    agent = AgentDefinition(name="a", model=MODELS["swift"], resolve_model=choose_model)
    flow = create_builtin_agent_session_flow(agent, "Settings")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1")
        for settings in ({}, {"model": "deep"}, {"model": "swift"}):
            await client.update_session_settings("s1", settings)
            await client.send_user_message("s1", "Who are you?")
            await client.wait_for_idle("s1")
            print((await client.get_agent_snapshot("s1")).messages[-1].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
