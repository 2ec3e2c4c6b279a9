"""A viewer that comes late and shows everything once. Run `python -m examples.live_view`."""

import asyncio
import tempfile

from dex_agents import (
    AgentSessionClient,
    AgentWorker,
    SessionClosed,
    TextDelta,
    TurnCompletedEvent,
    TurnStarted,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
)
from dex_agents.engine import LocalEngine

halfway, go_on = asyncio.Event(), asyncio.Event()


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Answer at length."""
    return ScriptedModelReply(
        text=f"Answer {len(ScriptedModelClient.user_texts(request))}: one two three four"
    )


async def pause(delta: str) -> None:
    """Let the viewer come in the middle of the first answer."""
    if delta.strip() == "three" and not halfway.is_set():
        halfway.set()
        await go_on.wait()


async def main(database: str) -> None:
    agent = AgentDefinition(name="writer", model=ScriptedModelClient(reply, before_delta=pause))
    flow = create_builtin_agent_session_flow(agent, "Writer")
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s", first_message="Write.")
        await halfway.wait()
        # The answer is half streamed and not committed: the snapshot does not have it, the events do.
        snapshot = await client.get_agent_snapshot("s")
        for message in snapshot.messages:
            print("snapshot:", message.role, message.text)
        go_on.set()
        shown = ""
        async for event in client.events("s", since=snapshot):
            match event:
                case TextDelta():
                    shown += event.text
                case TurnStarted():
                    print("events: another turn")
                case TurnCompletedEvent():
                    print("events:", shown)
                    shown = ""
                    if event.turn_id == "turn-1":
                        await client.send_user_message("s", "Again.")
                    else:
                        await client.close_session("s")
                case SessionClosed():
                    print("events: closed")
                case _:
                    pass


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
