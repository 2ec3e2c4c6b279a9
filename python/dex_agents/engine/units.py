"""Where units come from and where they go."""

from __future__ import annotations

from collections.abc import Callable

from dex_agents.engine.clock import Clock
from dex_agents.engine.committer import Committer
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers


class Units:
    """Opens and commits units of one database.

    Attributes:
        committer: Where they are committed.
        index_types: Search keys of the database and their types; units add to them.
        keeps_history: Units record what happens in them.
        start_again: Called for every run of a unit that failed and is to be followed by another one, with the
            delay of that in seconds; the new run is a part of the unit.
        hand_out: Called for every attempt that a unit makes due, before the unit is queued. A Worker that has
            room is prepared for while the disk is busy, and gets the attempt once the unit is durable.
        present: The unit whose attempts are being handed out; what that changes is a part of it.
    """

    def __init__(
        self,
        clock: Clock,
        committer: Committer,
        numbers: BlobNumbers,
        index_types: dict[str, int],
        *,
        keeps_history: bool,
    ) -> None:
        self.committer = committer
        self.index_types = index_types
        self.keeps_history = keeps_history
        self.start_again: Callable[[Run, float, Unit], None] | None = None
        self.hand_out: Callable[[Run, StepExecution], None] | None = None
        self.present: Unit | None = None
        self._clock = clock
        self._numbers = numbers

    def open(self) -> Unit:
        """Return an empty unit."""
        return Unit(self._numbers, self.index_types, self._clock.now(), keeps_history=self.keeps_history)

    def now(self) -> float:
        """Return the current Unix time in seconds."""
        return self._clock.now()

    def commit(self, unit: Unit) -> int:
        """Queue a unit and return its journal sequence, or 0 when it changed nothing."""
        if not unit.operations:
            return 0
        if self.start_again is not None:
            for run, delay in unit.restarts:
                self.start_again(run, delay, unit)
        if unit.ready and self.hand_out is not None:
            self.committer.number(unit)
            self.present = unit
            try:
                for run, execution in unit.ready:
                    self.hand_out(run, execution)
            finally:
                self.present = None
        return self.committer.submit(unit)

    def open_in_company(self) -> Unit:
        """Return a unit for what nobody waits for; see `Committer.submit_in_company`."""
        return self.committer.find_company() or self.open()

    def commit_in_company(self, unit: Unit) -> None:
        """Queue a unit from `open_in_company`, unless it is queued already."""
        if unit.operations and not unit.sequence:
            self.committer.submit_in_company(unit)

    async def commit_durably(self, unit: Unit) -> None:
        """Queue a unit and wait until it survives a crash.

        Raises:
            ServiceError: The engine is ending.
        """
        sequence = self.commit(unit)
        if sequence:
            await self.committer.wait_durable(sequence)
