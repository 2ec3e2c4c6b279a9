"""Where units come from and where they go."""

from __future__ import annotations

from dex_agents.engine.clock import Clock
from dex_agents.engine.committer import Committer
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers


class Units:
    """Opens and commits units of one database.

    Attributes:
        committer: Where they are committed.
        index_types: Search keys of the database and their types; units add to them.
    """

    def __init__(
        self, clock: Clock, committer: Committer, numbers: BlobNumbers, index_types: dict[str, int]
    ) -> None:
        self.committer = committer
        self.index_types = index_types
        self._clock = clock
        self._numbers = numbers

    def open(self) -> Unit:
        """Return an empty unit."""
        return Unit(self._numbers, self.index_types)

    def now(self) -> float:
        """Return the current Unix time in seconds."""
        return self._clock.now()

    def commit(self, unit: Unit) -> int:
        """Queue a unit and return its journal sequence, or 0 when it changed nothing."""
        return self.committer.submit(unit) if unit.operations else 0

    def commit_in_company(self, unit: Unit) -> None:
        """Queue a unit that nobody waits for; see `Committer.submit_in_company`."""
        if unit.operations:
            self.committer.submit_in_company(unit)

    async def commit_durably(self, unit: Unit) -> None:
        """Queue a unit and wait until it survives a crash.

        Raises:
            ServiceError: The engine is ending.
        """
        sequence = self.commit(unit)
        if sequence:
            await self.committer.wait_durable(sequence)
