"""Long polls: callers that wait until a run looks as they want."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dex_agents.engine.committer import Committer
from dex_agents.engine.failures import ServiceError, long_poll_expired
from dex_agents.engine.state import Run

MAX_WAIT_SECONDS = 60
"""Longest wait of one call; the SDK asks again."""

_SeenT = TypeVar("_SeenT")


class _Waiter(Generic[_SeenT]):
    """A caller, and how it looks at the run."""

    __slots__ = ("_look", "seen")

    def __init__(self, look: Callable[[], _SeenT | None]) -> None:
        self._look = look
        self.seen: asyncio.Future[_SeenT] = asyncio.get_running_loop().create_future()

    def try_to_see(self) -> bool:
        """Look; tell whether there is nothing to wait for any more."""
        if self.seen.done():
            return True
        try:
            seen = self._look()
        except ServiceError as failure:
            self.seen.set_exception(failure)
            return True
        if seen is None:
            return False
        self.seen.set_result(seen)
        return True


class Waits:
    """Wakes callers when the run that they look at has become what they wait for, durably."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._waiting: dict[int, list[_Waiter[Any]]] = {}

    def notify(self, run: Run) -> None:
        """Let everybody who waits for a run look again; only who sees something is woken."""
        waiting = self._waiting.get(run.number)
        if waiting is not None:
            self._keep(run, [waiter for waiter in waiting if not waiter.try_to_see()])

    async def wait_until(self, run: Run, look: Callable[[], _SeenT | None], seconds: float) -> _SeenT:
        """Wait until `look` sees something, and until what it saw is durable.

        Args:
            run: The run that `look` looks at.
            look: Returns `None` while there is nothing to see.
            seconds: The longest wait; 0 and everything above the maximum mean `MAX_WAIT_SECONDS`.

        Raises:
            ServiceError: The time is over; what `look` raises passes through.
        """
        waiter = _Waiter(look)
        if not waiter.try_to_see():
            self._waiting.setdefault(run.number, []).append(waiter)
            try:
                async with asyncio.timeout(min(seconds, MAX_WAIT_SECONDS) or MAX_WAIT_SECONDS):
                    await waiter.seen
            except TimeoutError:
                raise long_poll_expired() from None
            finally:
                self._keep(run, [each for each in self._waiting.get(run.number, ()) if each is not waiter])
        seen = await waiter.seen
        await self._committer.wait_durable(run.last_sequence)
        return seen

    def _keep(self, run: Run, waiting: list[_Waiter[Any]]) -> None:
        if waiting:
            self._waiting[run.number] = waiting
        else:
            self._waiting.pop(run.number, None)
