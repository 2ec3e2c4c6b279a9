"""A long conversation is summarised and its old messages go. Run `python -m examples.compaction`."""

import asyncio
import tempfile

from dex_agents import AgentSessionClient, AgentSessionOptions, AgentWorker, CompactionPolicy
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
)
from dex_agents.engine import LocalEngine

SUMMARY_HEADER = "[Dex] Summary of the earlier conversation:"


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Summarise when asked to; else answer at length, and say what is still known of the beginning."""
    text = ScriptedModelClient.user_texts(request)[0]
    if "Write one summary of all of this now" in text:
        return ScriptedModelReply(text="The user is called Ada.")
    known = "your name from a summary" if text.startswith(SUMMARY_HEADER) else "every word"
    return ScriptedModelReply(text=f"I know {known}. " + "There is much to say about that. " * 20)


async def main(database: str) -> None:
    agent = AgentDefinition(
        name="talker",
        model=ScriptedModelClient(reply),
        compaction=CompactionPolicy(context_window_tokens=1_000),
    )
    flow = create_builtin_agent_session_flow(agent, "Talker", options=AgentSessionOptions(keep_messages=8))
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1", first_message="My name is Ada.")
        await client.wait_for_idle("s1")
        for number in range(12):
            await client.send_user_message("s1", f"Tell me more, part {number}.")
            await client.wait_for_idle("s1")
        snapshot = await client.get_agent_snapshot("s1")
        assert snapshot.context_summary is not None
        print("summary:", snapshot.context_summary.text)
        print((snapshot.messages[-1].text or "").partition(".")[0])
        print("old messages were deleted:", snapshot.dropped_messages > 0)
        print("stored and deleted:", len(snapshot.messages) + snapshot.dropped_messages)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
