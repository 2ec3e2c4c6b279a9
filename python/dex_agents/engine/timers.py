"""Durable instants: one heap and one loop timer for every Timer, retry delay and Flow timeout."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from itertools import count

from dex_agents.engine.clock import Clock
from dex_agents.engine.state import Run, StepExecution

MAX_SLEEP_SECONDS = 30.0
"""Longest sleep between two looks at the clock, so that a clock set forward is noticed."""

PRUNE_SIZE = 4096
"""Heap size from which entries that nobody waits for any more are dropped."""

_Entry = tuple[float, int, Run, StepExecution | None]


class Timers:
    """Calls back when the instant of a run or of one of its executions has come.

    An instant that is no longer wanted stays in the heap until it is due or the heap is pruned: whoever is
    called decides whether there is something to do.
    """

    def __init__(
        self,
        clock: Clock,
        on_due: Callable[[Run, StepExecution | None], None],
        is_wanted: Callable[[Run, StepExecution | None], bool],
    ) -> None:
        """Create an empty heap.

        Args:
            clock: The time.
            on_due: Called with the run, and the execution or `None` for the run itself.
            is_wanted: Whether an entry can still be of use.
        """
        self._clock = clock
        self._on_due = on_due
        self._is_wanted = is_wanted
        self._heap: list[_Entry] = []
        self._order = count()
        self._handle: asyncio.TimerHandle | None = None
        self._prune_at = PRUNE_SIZE

    def __len__(self) -> int:
        """Return the number of instants in the heap, wanted or not."""
        return len(self._heap)

    def add(self, when: float, run: Run, execution: StepExecution | None = None) -> None:
        """Ask for a call at a Unix time; a past one is called soon."""
        entry = (when, next(self._order), run, execution)
        heapq.heappush(self._heap, entry)
        if len(self._heap) >= self._prune_at:
            self._prune()
        if self._heap[0] is entry or self._handle is None:
            self._arm()

    def stop(self) -> None:
        """Forget everything."""
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
        for _, _, run, execution in self._take_due(self._clock.now()):
            self._on_due(run, execution)
        self._arm()

    def _take_due(self, now: float) -> Iterable[_Entry]:
        due: list[_Entry] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap))
        return due

    def _prune(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_wanted(entry[2], entry[3])]
        heapq.heapify(self._heap)
        self._prune_at = max(PRUNE_SIZE, 2 * len(self._heap))
