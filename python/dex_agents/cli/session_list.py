"""The sessions of an agent: a client for them, and the list of all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dex import AsyncClient, ClientOptions, WorkerTarget

from dex_agents.codecs.attributes import build_session_registry
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.client import AgentSessionClient
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.wire.snapshots import SessionProgress

__all__ = ["ListedSession", "OpenSessions", "connect_sessions"]

_PAGE: Final = 100
_RUNNING_CALLS: Final = frozenset({"pending", "running", "polling"})


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One session of the list.

    Attributes:
        session_id: The session.
        started_at: When it began.
        progress: Where it stands.
    """

    session_id: str
    started_at: datetime
    progress: SessionProgress


class OpenSessions:
    """A client of one agent's sessions that can also list them.

    Attributes:
        client: Talks to them.
    """

    def __init__(self, client: AgentSessionClient, dex_client: AsyncClient, flow_type: str) -> None:
        self.client: Final = client
        self._dex_client = dex_client
        self._flow_type = flow_type

    async def list_sessions(self, condition: str = "") -> AsyncIterator[ListedSession]:
        """Give every session, newest first.

        Args:
            condition: A condition of the engine's search language that they have to meet as well.
        """
        query = f'FlowType = "{self._flow_type}"{condition and f" AND {condition}"}'
        token = ""
        while True:
            page = await self._dex_client.search_flows(query, _PAGE, token)
            for entry in page.flows:
                progress = await self.client.get_progress(entry.flow_id)
                yield ListedSession(entry.flow_id, entry.started_at, progress)
            token = page.next_page_token
            if not token:
                return

    async def is_any_at_work(self) -> bool:
        """Whether some turn goes on without a person."""
        async for listed in self.list_sessions('AgentSessionStatus = "running"'):
            if not listed.progress.waits_on_person:
                return True
            snapshot = await self.client.get_agent_snapshot(listed.session_id)
            if any(call.status in _RUNNING_CALLS for call in snapshot.tool_calls):
                return True
        return False


@asynccontextmanager
async def connect_sessions(flow: AgentSessionFlow, server_address: str) -> AsyncGenerator[OpenSessions]:
    """Open a client for the length of the block."""
    cache = FetchingBlobCache(server_address)
    options = ClientOptions(server_address=server_address, worker_target=WorkerTarget(pull=True))
    dex_client = AsyncClient(build_session_registry(flow), cache, options)
    try:
        yield OpenSessions(AgentSessionClient(dex_client, flow), dex_client, flow.get_flow_type())
    finally:
        await dex_client.close()
        cache.close()
