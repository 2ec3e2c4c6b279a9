"""The runs in memory: every open one, and the closed ones that were used last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from dex_agents.engine.failures import flow_not_found
from dex_agents.engine.state import Run
from dex_agents.engine.store.writer import Folded

CLOSED_RUNS_IN_MEMORY = 512
"""Closed runs kept in memory, the latest used last to go."""


class RunArchive(Protocol):
    """Where runs that are not in memory come from."""

    async def load_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID."""
        ...

    async def load_by_run_id(self, run_id: str) -> Run | None:
        """Return the run with a run ID."""
        ...


class Runs:
    """Finds runs by Flow ID and run ID, in memory or in the archive."""

    def __init__(self, archive: RunArchive, last_number: int) -> None:
        """Begin with no run in memory.

        Args:
            archive: Where closed runs come from.
            last_number: The highest run number in use.
        """
        self._archive = archive
        self._last_number = last_number
        self._latest: dict[str, Run] = {}
        self._by_run_id: dict[str, Run] = {}
        self._closed: OrderedDict[int, Run] = OrderedDict()
        self._evictions = 0

    def next_number(self) -> int:
        """Return a run number that was never used."""
        self._last_number += 1
        return self._last_number

    def add(self, run: Run) -> None:
        """Take in an open run; it is the latest of its Flow ID."""
        self._latest[run.flow_id] = run
        self._by_run_id[run.run_id] = run

    def retire(self, run: Run) -> None:
        """Note that a run is closed, so that it may leave memory some time."""
        self._closed[run.number] = run
        self._closed.move_to_end(run.number)

    def note_folded(self, folded: Folded) -> None:
        """Drop closed runs that the archive has, beyond the number that is kept."""
        while len(self._closed) > CLOSED_RUNS_IN_MEMORY:
            number, run = next(iter(self._closed.items()))
            if run.last_sequence > folded.sequence:
                break
            del self._closed[number]
            self._by_run_id.pop(run.run_id, None)
            if self._latest.get(run.flow_id) is run:
                del self._latest[run.flow_id]
            self._evictions += 1

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
        run = self._latest.get(flow_id) or await self.find(flow_id, run_id)
        if not run.is_running or (run_id and run.run_id != run_id):
            raise flow_not_found(flow_id)
        return run

    async def find_latest(self, flow_id: str) -> Run | None:
        """Return the latest run of a Flow ID, or `None` for an ID that was never used.

        The answer is still true when this returns: whoever asked may act on it without waiting for anything
        else.
        """
        while True:
            evictions = self._evictions
            run = await self._load(flow_id, "")
            # A run that was started, closed and dropped from memory meanwhile would have been missed.
            if run is self._latest.get(flow_id) and evictions == self._evictions:
                return run

    async def _load(self, flow_id: str, run_id: str) -> Run | None:
        run = self._find_in_memory(flow_id, run_id)
        if run is not None:
            if run.number in self._closed:
                self._closed.move_to_end(run.number)
            return run
        if run_id:
            loaded = await self._archive.load_by_run_id(run_id)
        else:
            loaded = await self._archive.load_latest(flow_id)
        run = self._find_in_memory(flow_id, run_id)
        if run is None and loaded is not None:
            run = loaded
            self._by_run_id[run.run_id] = run
            if not run_id:
                self._latest[flow_id] = run
            self.retire(run)
        return run

    def _find_in_memory(self, flow_id: str, run_id: str) -> Run | None:
        return self._by_run_id.get(run_id) if run_id else self._latest.get(flow_id)
