"""Durable instants: one heap and one loop timer for every Timer, retry delay and Flow timeout.

Runs and executions are named by their numbers, so that a run that waits for an instant need not be in memory.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from dex_agents.engine.clock import Clock

MAX_SLEEP_SECONDS = 30.0
"""Longest sleep between two looks at the clock, so that a clock set forward is noticed."""

PRUNE_SIZE = 4096
"""Outdated instants that may be in the heap beside as many as there are wanted ones."""

Waiting = tuple[int, int]
"""Number of a run, and of one of its executions or 0 for the run itself."""


class Timers:
    """Calls back when the instant of a run or of one of its executions has come.

    Each has one instant at a time, its next one. What is outdated stays in the heap until it is due or the
    heap is pruned.
    """

    def __init__(self, clock: Clock, on_due: Callable[[int, int], None]) -> None:
        """Create an empty heap.

        Args:
            clock: The time.
            on_due: Called with the number of the run, and of the execution or 0.
        """
        self._clock = clock
        self._on_due = on_due
        self._instants: dict[Waiting, float] = {}
        self._heap: list[tuple[float, Waiting]] = []
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of instants in the heap, outdated ones included."""
        return len(self._heap)

    @property
    def count(self) -> int:
        """Number of instants that are wanted."""
        return len(self._instants)

    def set(self, when: float, run: int, execution: int = 0) -> None:
        """Ask for a call at a Unix time, instead of the one asked for before; a past one is called soon."""
        self._instants[run, execution] = when
        entry = (when, (run, execution))
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._instants) + PRUNE_SIZE:
            self._prune()
        if self._heap[0] is entry or self._handle is None:
            self._arm()

    def fill(self, instants: dict[Waiting, float]) -> None:
        """Ask for many calls at once, at the start."""
        self._instants.update(instants)
        self._prune()
        self._arm()

    def clear(self, run: int, execution: int = 0) -> None:
        """Take back what was asked for, if anything."""
        self._instants.pop((run, execution), None)

    def stop(self) -> None:
        """Forget everything."""
        self._instants.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap:
            delay = min(max(0.0, self._heap[0][0] - self._clock.now()), MAX_SLEEP_SECONDS)
            self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle = None
        for run, execution in self._take_due(self._clock.now()):
            self._on_due(run, execution)
        self._arm()

    def _take_due(self, now: float) -> list[Waiting]:
        due: list[Waiting] = []
        while self._heap and self._heap[0][0] <= now:
            when, waiting = heapq.heappop(self._heap)
            if self._instants.get(waiting) == when:
                del self._instants[waiting]
                due.append(waiting)
        return due

    def _prune(self) -> None:
        self._heap = [(when, waiting) for waiting, when in self._instants.items()]
        heapq.heapify(self._heap)
