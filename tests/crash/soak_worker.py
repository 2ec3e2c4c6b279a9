"""The crash agent as the soak's Workers serve it."""

from __future__ import annotations

from functools import partial
from typing import Final

from dex_agents.session import worker
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.flow import AgentSessionFlow
from tests.crash import agent

__all__ = ["create_flow"]

_CACHE_BYTES: Final = 1024 * 1024


def create_flow(folder: str) -> AgentSessionFlow:
    """Return the agent, in a Worker whose cache of large values is full soon.

    As shipped it holds 64 MiB: it would fill up during the whole soak, and look like a leak.
    """
    setattr(worker, "FetchingBlobCache", partial(FetchingBlobCache, max_bytes=_CACHE_BYTES))  # noqa: B010
    return agent.create_flow(folder, agent.COMPACTS)
