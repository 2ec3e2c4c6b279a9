from __future__ import annotations

import asyncio

from dex_agents.engine.timers import PRUNE_SIZE, Timers
from tests.unit.engine.building import NOW


class Stage:
    """Timers at an instant that a test sets, and what became due."""

    def __init__(self) -> None:
        self.time = NOW
        self.due: list[tuple[int, int]] = []
        self.changed = asyncio.Event()
        self.timers = Timers(self, self._on_due)

    def now(self) -> float:
        return self.time

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.due) < count:
                await self.changed.wait()
                self.changed.clear()

    def _on_due(self, run: int, execution: int) -> None:
        self.due.append((run, execution))
        self.changed.set()


async def test_what_is_due_is_called_in_the_order_of_its_instants() -> None:
    stage = Stage()
    stage.timers.set(NOW + 1000, 1)
    stage.timers.set(NOW + 0.02, 2, 7)
    stage.timers.set(NOW + 0.01, 3)
    stage.time = NOW + 60
    await stage.wait_for(2)
    assert stage.due == [(3, 0), (2, 7)]
    stage.timers.stop()


async def test_a_past_instant_is_called_soon() -> None:
    stage = Stage()
    stage.timers.set(NOW - 100, 1)
    await stage.wait_for(1)


async def test_a_later_wish_replaces_the_one_before_and_may_be_taken_back() -> None:
    stage = Stage()
    stage.timers.set(NOW - 3, 1, 1)
    stage.timers.set(NOW + 1000, 1, 1)
    stage.timers.set(NOW - 2, 1, 2)
    stage.timers.clear(1, 2)
    stage.timers.set(NOW - 1, 1, 3)
    await stage.wait_for(1)
    assert stage.due == [(1, 3)]
    stage.timers.stop()


async def test_many_instants_can_be_filled_in_at_once() -> None:
    stage = Stage()
    stage.timers.fill({(number, 1): NOW - number for number in range(1, 4)})
    await stage.wait_for(3)
    assert stage.due == [(3, 1), (2, 1), (1, 1)]


async def test_nothing_is_called_after_the_stop() -> None:
    stage = Stage()
    stage.timers.set(NOW - 1, 1)
    stage.timers.stop()
    other = Stage()
    other.timers.set(NOW - 1, 1)
    await other.wait_for(1)
    assert stage.due == []


async def test_outdated_instants_do_not_pile_up() -> None:
    stage = Stage()
    stage.timers.set(NOW + 50, 1)
    for number in range(3 * PRUNE_SIZE):
        stage.timers.set(NOW + 100 + number, 2, 1)
    assert len(stage.timers) <= PRUNE_SIZE + 5
    stage.timers.stop()
