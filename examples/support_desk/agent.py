"""The support agent: its tools, its model and its Flow type."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dex_agents import AgentSessionFlow
from dex_agents.builtin_loop import AgentDefinition, ScriptedModelClient, create_builtin_agent_session_flow
from examples.support_desk.desk import SupportDesk
from examples.support_desk.desk_model import reply_as_desk_model
from examples.support_desk.desk_tools import build_desk_tools
from examples.support_desk.file_reader import DATA_FOLDER, read_files
from examples.support_desk.provider_client import PaymentProviderClient

__all__ = ["FLOW_TYPE", "create_support_desk_flow"]

FLOW_TYPE = "SupportDesk"
"""Names the sessions of this agent on the engine."""


def create_support_desk_flow(
    provider_address: str, folder: Path = DATA_FOLDER, *, pace: float = 0.0
) -> AgentSessionFlow:
    """Make the session Flow of the support agent.

    Args:
        provider_address: Where the payment provider listens, `host:port`.
        folder: The desk's files.
        pace: Seconds that each read takes longer, and 25 words of an answer; for people who watch.

    Raises:
        OSError: A file cannot be opened.
        ValueError: A file or the address cannot be used.
    """
    desk = SupportDesk(read_files(folder))

    async def pause_before_word(_word: str) -> None:
        await asyncio.sleep(pace / 25)

    definition = AgentDefinition(
        name="support desk",
        instructions="You help the people of the support desk. State nothing that no tool has returned.",
        model=ScriptedModelClient(reply_as_desk_model, before_delta=pause_before_word),
        tools=build_desk_tools(desk, PaymentProviderClient(provider_address), seconds_per_read=pace),
        tool_output_ascii=False,
    )
    return create_builtin_agent_session_flow(definition, FLOW_TYPE)
