"""The runs in memory: those that something is going on with, and those that were used last.

=================================  ========================================================================
a run                              is
=================================  ========================================================================
used lately                        kept, beyond `RUNS_IN_MEMORY` the longest unused go first
with a task, a call or a waiter    kept by that, whatever its age
neither                            dropped once the archive has all of it, and loaded when it is asked for
=================================  ========================================================================

Dropping is letting go: as long as anybody holds a run, everybody finds that same object. So two copies of one
run cannot be in use, and nobody has to announce that he is going to wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from dex_agents.engine.failures import flow_not_found
from dex_agents.engine.state import Run
from dex_agents.engine.store.writer import Folded

RUNS_IN_MEMORY = 4096
"""Runs kept for their use alone; one that waits for a message takes about 8 KB."""


class RunArchive(Protocol):
    """Where runs that are not in memory come from."""

    async def load_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID."""
        ...

    async def load_by_run_id(self, run_id: str) -> Run | None:
        """Return the run with a run ID."""
        ...

    async def load_runs(self, numbers: Sequence[int]) -> list[Run]:
        """Return the runs with some numbers, as far as they exist."""
        ...


class Runs:
    """Finds runs by Flow ID, run ID and number, in memory or in the archive."""

    def __init__(self, archive: RunArchive, last_number: int, *, kept: int = RUNS_IN_MEMORY) -> None:
        """Begin with no run in memory.

        Args:
            archive: Where the others come from.
            last_number: The highest run number in use.
            kept: How many runs stay in memory for their use alone.
        """
        self._archive = archive
        self._last_number = last_number
        self._kept = kept
        self._recent: OrderedDict[int, Run] = OrderedDict()
        self._latest: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self._by_run_id: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self._by_number: WeakValueDictionary[int, Run] = WeakValueDictionary()
        self._evictions = 0

    def __len__(self) -> int:
        """Return the number of runs in memory."""
        return len(self._by_number)

    def next_number(self) -> int:
        """Return a run number that was never used."""
        self._last_number += 1
        return self._last_number

    def add(self, run: Run) -> None:
        """Take in a run that is the latest of its Flow ID."""
        self._latest[run.flow_id] = run
        self._keep(run)

    def note_used(self, run: Run) -> None:
        """Note that something happened to a run."""
        self._recent[run.number] = run
        self._recent.move_to_end(run.number)

    def note_folded(self, folded: Folded) -> None:
        """Let go of runs that the archive has, beyond the number that is kept."""
        while len(self._recent) > self._kept:
            number, run = next(iter(self._recent.items()))
            if run.last_sequence > folded.sequence:
                break
            del self._recent[number]
            self._evictions += 1

    def forget(self, run: Run) -> None:
        """Let go of a run that was removed from the database."""
        self._recent.pop(run.number, None)
        self._by_run_id.pop(run.run_id, None)
        self._by_number.pop(run.number, None)
        if self._latest.get(run.flow_id) is run:
            del self._latest[run.flow_id]
        self._evictions += 1

    def find_in_memory(self, number: int) -> Run | None:
        """Return the run with a number if it is in memory."""
        return self._by_number.get(number)

    async def find_all(self, numbers: Sequence[int]) -> list[Run]:
        """Return the runs with some numbers, as far as they exist."""
        while True:
            evictions = self._evictions
            missing = [number for number in numbers if number not in self._by_number]
            loaded = {run.number: run for run in await self._archive.load_runs(missing)} if missing else {}
            if evictions == self._evictions:
                break
        found: list[Run] = []
        for number in numbers:
            run = self._by_number.get(number)
            if run is None and (run := loaded.get(number)) is not None:
                self._keep(run)
            if run is not None:
                found.append(run)
        return found

    async def find(self, flow_id: str, run_id: str = "") -> Run:
        """Return a run, open or closed: the one with the run ID, or the latest of the Flow ID.

        Raises:
            ServiceError: There is none.
        """
        run = await self._load(flow_id, run_id)
        if run is None or run.flow_id != flow_id:
            raise flow_not_found(flow_id)
        return run

    async def find_open(self, flow_id: str, run_id: str = "") -> Run:
        """Return an open run.

        Raises:
            ServiceError: There is none.
        """
        run = await self.find(flow_id)
        if not run.is_running or (run_id and run.run_id != run_id):
            raise flow_not_found(flow_id)
        return run

    async def find_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID, or `None` for an ID that was never used.

        The answer is still true when this returns: whoever asked may act on it without waiting for anything
        else.
        """
        return await self._load(flow_id, "")

    async def _load(self, flow_id: str, run_id: str) -> Run | None:
        while True:
            run = self._by_run_id.get(run_id) if run_id else self._latest.get(flow_id)
            if run is not None:
                self.note_used(run)
                return run
            evictions = self._evictions
            if run_id:
                loaded = await self._archive.load_by_run_id(run_id)
            else:
                loaded = await self._archive.load_latest(flow_id)
            # What was read may be outdated if the run was in memory and left it meanwhile.
            if evictions == self._evictions:
                break
        run = self._by_run_id.get(run_id) if run_id else self._latest.get(flow_id)
        if run is None and loaded is not None:
            # It may be in memory under the other of its names.
            run = self._by_number.get(loaded.number, loaded)
            if not run_id:
                self._latest[flow_id] = run
            self._keep(run)
        return run

    def _keep(self, run: Run) -> None:
        self._by_run_id[run.run_id] = run
        self._by_number[run.number] = run
        self.note_used(run)
