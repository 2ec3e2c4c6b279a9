"""Heartbeats while a runner or a tool works, so that a slow one is not taken for a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from dex import AsyncContext

from dex_agents.limits import STEP_HEARTBEAT_SECONDS

__all__ = ["Heartbeats", "heartbeats"]

_INTERVAL_SECONDS: Final = STEP_HEARTBEAT_SECONDS / 4


class Heartbeats:
    """Sends heartbeats, and remembers the value that a tool left in the last one."""

    def __init__(self, context: AsyncContext) -> None:
        """Bind to a Step attempt."""
        self._context = context
        self._value: str | None = None

    async def beat(self, value: str | None = None) -> None:
        """Send one; a value stays until another replaces it."""
        if value is not None:
            self._value = value
        if self._value is None:
            await self._context.heartbeat()
        else:
            await self._context.heartbeat(self._value)


@asynccontextmanager
async def heartbeats(context: AsyncContext) -> AsyncGenerator[Heartbeats, None]:
    """Keep a Step attempt alive while the block runs."""
    pulse = Heartbeats(context)

    async def tick() -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await pulse.beat()

    ticker = asyncio.create_task(tick())
    try:
        yield pulse
    finally:
        ticker.cancel()
