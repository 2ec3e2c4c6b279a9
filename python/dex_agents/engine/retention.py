"""Removes runs that closed long ago, with everything that belongs to them."""

from __future__ import annotations

import asyncio
import logging

from dex_agents.engine.archive import Archive
from dex_agents.engine.failures import ServiceError
from dex_agents.engine.journal import Table
from dex_agents.engine.runs import Runs
from dex_agents.engine.state import MESSAGE_COUNTER, Run
from dex_agents.engine.streams import Streams
from dex_agents.engine.unit import Unit
from dex_agents.engine.units import Units
from dex_agents.engine.values import read_blob_id

LOOK_SECONDS = 30.0
"""Time between two looks for runs to remove; a tenth of the retention if that is less."""

BATCH_RUNS = 64
"""Runs removed with one commit."""

_LOGGER = logging.getLogger(__name__)


class Retention:
    """Removes closed runs, some at a time, so that nobody notices."""

    def __init__(self, units: Units, runs: Runs, archive: Archive, streams: Streams, seconds: float) -> None:
        """Prepare to remove.

        Args:
            units: Where removals are committed.
            runs: Where they are forgotten.
            archive: Where they are found.
            streams: The streams, of which those of a removed Flow ID go too.
            seconds: How long a run is kept after it closed.
        """
        self._units = units
        self._runs = runs
        self._archive = archive
        self._streams = streams
        self._seconds = seconds

    async def keep_removing(self) -> None:
        """Look from time to time, until it is canceled."""
        while True:
            try:
                removed = await self.remove_some()
            except ServiceError as failure:
                _LOGGER.warning("could not remove closed runs: %s", failure.detail)
                removed = 0
            if removed:
                _LOGGER.info("removed %d runs that had closed %g s ago or earlier", removed, self._seconds)
            if removed < BATCH_RUNS:
                await asyncio.sleep(min(LOOK_SECONDS, self._seconds / 10))

    async def remove_some(self) -> int:
        """Remove the runs that closed first among those that have been kept long enough; return how many.

        Raises:
            ServiceError: The engine is ending.

        Durability:
            A run goes as a whole: with all its rows, or with none.
        """
        before = self._units.now() - self._seconds
        numbers = await self._archive.load_closed_before(before, BATCH_RUNS)
        removed: list[Run] = []
        unit = self._units.open()
        for run in await self._runs.find_all(numbers):
            if run.closed_at is None or run.closed_at >= before:
                continue
            latest = await self._runs.find_latest(run.flow_id)
            if latest is run and not self._streams.remove(run.flow_id, unit):
                continue
            record_removal(run, unit)
            removed.append(run)
        await self._units.commit_durably(unit)
        # Folded first: otherwise whoever asks for one would read it from the tables again.
        await self._units.committer.wait_folded()
        for run in removed:
            self._runs.forget(run)
        return len(removed)


def record_removal(run: Run, unit: Unit) -> None:
    """Delete every row of a closed run, and let its blobs go; its history goes with it."""
    unit.delete(Table.RUN, (run.number,))
    if run.chain is not None:
        unit.delete(Table.RUN_CHAIN, (run.number,))
    for attributes in (run.plain, *run.maps.values()):
        for key, attribute in attributes.items():
            unit.discard(attribute.blob_id)
            unit.deletes_secret |= attribute.is_secret
            table = Table.SECRET_ATTRIBUTE if attribute.is_secret else Table.ATTRIBUTE
            unit.delete(table, (run.number, key))
    for key, entry in run.indexes.items():
        unit.discard(entry.blob_id)
        for position in range(entry.rows):
            unit.delete(Table.INDEX_VALUE, (run.number, key, position))
    for channel, messages in run.channels.items():
        for message in messages:
            unit.discard(read_blob_id(message.value))
            unit.delete(Table.CHANNEL_MESSAGE, (run.number, channel, message.sequence))
    for position, output in enumerate(run.outputs, 1):
        unit.discard(read_blob_id(output.completed_step_output))
        unit.delete(Table.OUTPUT, (run.number, position))
    for name in (*run.started_counts, MESSAGE_COUNTER):
        unit.delete(Table.COUNTER, (run.number, name))
