from __future__ import annotations

import asyncio

from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.timers import PRUNE_SIZE, Timers
from tests.unit.engine.building import NOW, new_run


class Stage:
    """Timers at an instant that a test sets, and what became due."""

    def __init__(self) -> None:
        self.time = NOW
        self.due: list[Run] = []
        self.wanted: set[int] | None = None
        self.changed = asyncio.Event()
        self.timers = Timers(self, self._on_due, self._is_wanted)

    def now(self) -> float:
        return self.time

    def _on_due(self, run: Run, _execution: StepExecution | None) -> None:
        self.due.append(run)
        self.changed.set()

    def _is_wanted(self, run: Run, _execution: StepExecution | None) -> bool:
        return self.wanted is None or id(run) in self.wanted


async def test_what_is_due_is_called_in_the_order_of_its_instants() -> None:
    stage = Stage()
    late, early, never = new_run(), new_run(), new_run()
    stage.timers.add(NOW + 1000, never)
    stage.timers.add(NOW + 0.02, late)
    stage.timers.add(NOW + 0.01, early)
    stage.time = NOW + 60
    async with asyncio.timeout(30):
        while len(stage.due) < 2:
            await stage.changed.wait()
            stage.changed.clear()
    assert stage.due == [early, late]
    stage.timers.stop()


async def test_a_past_instant_is_called_soon() -> None:
    stage = Stage()
    stage.timers.add(NOW - 100, new_run())
    async with asyncio.timeout(30):
        await stage.changed.wait()
    assert len(stage.due) == 1


async def test_nothing_is_called_after_the_stop() -> None:
    stage = Stage()
    stage.timers.add(NOW - 1, new_run())
    stage.timers.stop()
    other = Stage()
    other.timers.add(NOW - 1, new_run())
    async with asyncio.timeout(30):
        await other.changed.wait()
    assert stage.due == []


async def test_unwanted_instants_do_not_pile_up() -> None:
    stage = Stage()
    kept = new_run()
    stage.wanted = {id(kept)}
    stage.timers.add(NOW + 50, kept)
    for _ in range(3 * PRUNE_SIZE):
        stage.timers.add(NOW + 100, new_run())
    assert len(stage.timers) < PRUNE_SIZE
    stage.timers.stop()
