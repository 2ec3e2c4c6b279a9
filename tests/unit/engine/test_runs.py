from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence

import pytest

from dex_agents.engine.failures import ServiceError
from dex_agents.engine.runs import Runs
from dex_agents.engine.state import Run
from dex_agents.engine.store.writer import Folded
from tests.unit.engine.building import new_run


class Shelf:
    """An archive of runs made anew at every load, which can do something in the middle of one."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.loads = 0
        self.meanwhile: Callable[[], None] | None = None

    async def load_latest(self, flow_id: str) -> Run | None:
        found = [number for name, number in self.numbers.items() if name.startswith(flow_id)]
        return await self._load(max(found)) if found else None

    async def load_by_run_id(self, run_id: str) -> Run | None:
        number = self.numbers.get(run_id)
        return None if number is None else await self._load(number)

    async def load_runs(self, numbers: Sequence[int]) -> list[Run]:
        return [await self._load(number) for number in numbers if number in self.numbers.values()]

    async def _load(self, number: int) -> Run:
        self.loads += 1
        run = build(number)
        await asyncio.sleep(0)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return run


def build(number: int, flow_id: str = "") -> Run:
    run = new_run()
    run.number = number
    run.flow_id = flow_id or f"f{number}"
    run.run_id = f"f{number}"
    run.last_sequence = number
    return run


def fill(shelf: Shelf, runs: Runs, count: int) -> None:
    for number in range(1, count + 1):
        shelf.numbers[f"f{number}"] = number
        runs.add(build(number))


async def test_the_longest_unused_runs_leave_memory_and_come_back_when_they_are_asked_for() -> None:
    shelf = Shelf()
    runs = Runs(shelf, 0, kept=3)
    fill(shelf, runs, 10)
    await runs.find("f1")
    runs.note_folded(Folded(100))
    gc.collect()
    assert len(runs) == 3
    assert shelf.loads == 0
    assert [(await runs.find(f"f{number}")).number for number in (1, 9, 10)] == [1, 9, 10]
    assert shelf.loads == 0
    assert (await runs.find("f2")).number == 2
    assert shelf.loads == 1


async def test_a_run_that_is_not_in_the_archive_yet_stays() -> None:
    shelf = Shelf()
    runs = Runs(shelf, 0, kept=0)
    fill(shelf, runs, 10)
    runs.note_folded(Folded(4))
    gc.collect()
    assert len(runs) == 6


async def test_a_run_that_somebody_holds_is_the_same_for_everybody() -> None:
    shelf = Shelf()
    runs = Runs(shelf, 0, kept=0)
    fill(shelf, runs, 3)
    held = await runs.find("f2")
    runs.note_folded(Folded(100))
    gc.collect()
    assert len(runs) == 1
    assert await runs.find("f2") is held
    assert await runs.find("f2", "f2") is held
    assert await runs.find_all([2]) == [held]
    assert shelf.loads == 0


async def test_two_who_load_a_run_at_once_get_the_same_one() -> None:
    shelf = Shelf()
    shelf.numbers["f1"] = 1
    runs = Runs(shelf, 0)
    first, second, (third,) = await asyncio.gather(runs.find("f1"), runs.find("f1", "f1"), runs.find_all([1]))
    assert first is second
    assert first is third


async def test_what_was_read_before_a_run_came_and_went_is_read_again() -> None:
    shelf = Shelf()
    shelf.numbers["f1"] = 1
    runs = Runs(shelf, 0, kept=0)

    def come_and_go() -> None:
        run = build(1)
        run.error_message = "changed"
        runs.add(run)
        runs.note_folded(Folded(100))

    shelf.meanwhile = come_and_go
    await runs.find("f1")
    assert shelf.loads == 2


async def test_a_new_run_takes_the_place_of_the_last_one_of_its_flow_id() -> None:
    runs = Runs(Shelf(), 0)
    old, new = build(1, "f"), build(2, "f")
    runs.add(old)
    runs.add(new)
    assert await runs.find("f") is new
    assert await runs.find("f", "f1") is old
    with pytest.raises(ServiceError, match="does not exist or is not running"):
        await runs.find_open("f", "f1")


async def test_a_run_that_was_removed_is_not_found_again() -> None:
    shelf = Shelf()
    runs = Runs(shelf, 0)
    run = build(1)
    runs.add(run)
    runs.forget(run)
    with pytest.raises(ServiceError, match="does not exist"):
        await runs.find("f1")
    assert await runs.find_all([1]) == []
