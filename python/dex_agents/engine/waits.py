"""Long polls: callers that wait until a run looks as they want."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from dex_agents.engine.committer import Committer
from dex_agents.engine.failures import long_poll_expired
from dex_agents.engine.state import Run

MAX_WAIT_SECONDS = 60
"""Longest wait of one call; the SDK asks again."""

_SeenT = TypeVar("_SeenT")


class Waits:
    """Wakes callers when the run that they look at has changed durably."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    def notify(self, run: Run) -> None:
        """Let everybody who waits for a run look again."""
        for waiter in self._waiting.pop(run.number, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, run: Run, look: Callable[[], _SeenT | None], seconds: float) -> _SeenT:
        """Wait until `look` sees something, and until what it saw is durable.

        Args:
            run: The run that `look` looks at.
            look: Returns `None` while there is nothing to see.
            seconds: The longest wait; 0 and everything above the maximum mean `MAX_WAIT_SECONDS`.

        Raises:
            ServiceError: The time is over; what `look` raises passes through.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (min(seconds, MAX_WAIT_SECONDS) or MAX_WAIT_SECONDS)
        while True:
            seen = look()
            if seen is not None:
                await self._committer.wait_durable(run.last_sequence)
                return seen
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(run.number, []).append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                raise long_poll_expired() from None
            finally:
                self._forget(run, waiter)

    def _forget(self, run: Run, waiter: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(run.number)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._waiting[run.number]
