"""An agent as a command uses it: its configuration, its host and a client of its sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dex_agents.cli.agent_files import AgentFiles
from dex_agents.cli.config import AgentConfig
from dex_agents.cli.session_list import OpenSessions
from dex_agents.media.contract import MediaStore
from dex_agents.media.local_directory import LocalDirectoryMediaStore
from dex_agents.session.client import AgentSessionClient

__all__ = ["OpenedAgent", "open_agent"]


@dataclass(frozen=True, slots=True)
class OpenedAgent:
    """What a command works with.

    Attributes:
        sessions: The agent's sessions.
        media_store: Takes the images of messages.
        note: What the person should know about the host, or `None`.
        keys: Which of the variables with keys of providers the host has; never what they hold.
    """

    sessions: OpenSessions
    media_store: MediaStore
    note: str | None
    keys: frozenset[str]

    @property
    def client(self) -> AgentSessionClient:
        """Talks to the sessions."""
        return self.sessions.client


@asynccontextmanager
async def open_agent(files: AgentFiles, config: AgentConfig) -> AsyncGenerator[OpenedAgent]:
    """Attach to the agent's host, started if need be, for the length of the block.

    Raises:
        EngineError: The host cannot be started.
    """
    from dex_agents.cli.agent import build_flow
    from dex_agents.cli.host_link import attach_to_host
    from dex_agents.cli.session_list import connect_sessions

    media_store = LocalDirectoryMediaStore(files.images)
    async with (
        attach_to_host(files, config) as link,
        connect_sessions(build_flow(config, media_store), link.server_address) as sessions,
    ):
        yield OpenedAgent(sessions, media_store, link.note, frozenset(link.greeting["keys"]))
