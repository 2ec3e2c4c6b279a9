"""Long polls for a Flow: they go over to the run that follows one that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from dex_agents.engine.runs import Runs
from dex_agents.engine.state import Run
from dex_agents.engine.waits import MAX_WAIT_SECONDS, Waits

_SeenT = TypeVar("_SeenT")


class FlowWaits:
    """Waits for what happens to a Flow, whichever of its runs it happens to."""

    def __init__(self, waits: Waits, runs: Runs) -> None:
        self._waits = waits
        self._runs = runs

    async def wait_until(
        self, run: Run, look: Callable[[Run], _SeenT | None], seconds: float, *, is_pinned: bool = False
    ) -> tuple[Run, _SeenT | None]:
        """Wait until `look` sees something, or until the Flow is closed.

        Args:
            run: The run to begin with.
            look: Returns `None` while there is nothing to see in a run.
            seconds: The longest wait; 0 and everything above the maximum mean `MAX_WAIT_SECONDS`.
            is_pinned: The caller named the run, so none that follows it is of interest.

        Returns:
            The run that was looked at last, and what was seen in it: `None` means that it is closed.

        Raises:
            ServiceError: The time is over; what `look` raises passes through.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + (min(seconds, MAX_WAIT_SECONDS) or MAX_WAIT_SECONDS)
        while True:
            seen = await self._wait_for_run(run, look, max(end - loop.time(), 0.001))
            if seen is not None:
                return run, seen
            successor = None if is_pinned else await self._find_successor(run)
            if successor is None:
                return run, None
            run = successor

    async def _wait_for_run(
        self, run: Run, look: Callable[[Run], _SeenT | None], seconds: float
    ) -> _SeenT | None:
        def look_at_run() -> tuple[_SeenT | None] | None:
            seen = look(run)
            return None if seen is None and run.is_running else (seen,)

        (seen,) = await self._waits.wait_until(run, look_at_run, seconds)
        return seen

    async def _find_successor(self, run: Run) -> Run | None:
        if run.chain is None:
            return None
        latest = await self._runs.find_latest(run.flow_id)
        if latest is None or latest is run or latest.first_run_id != run.first_run_id:
            return None
        return latest
