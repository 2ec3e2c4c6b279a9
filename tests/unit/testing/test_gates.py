from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from dex_agents import InvalidInputError
from dex_agents.testing import FileGate

_ARRIVE = "import sys; from dex_agents.testing import FileGate; FileGate(sys.argv[1]).arrive_blocking()"


async def _start_arriving_process(path: Path) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", _ARRIVE, str(path))


async def test_whoever_arrives_waits_until_the_gate_is_opened(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate")
    arriving = asyncio.create_task(FileGate(tmp_path / "gate").arrive())

    assert await gate.wait_for_arrivals() == (os.getpid(),)
    assert not arriving.done()
    gate.open()
    await arriving


async def test_an_open_gate_lets_everyone_through_until_it_is_closed(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate")
    gate.open()
    await gate.arrive()
    gate.arrive_blocking()
    gate.close()
    arriving = asyncio.create_task(gate.arrive())

    assert len(await gate.wait_for_arrivals(3)) == 3
    assert not arriving.done()
    gate.open()
    await arriving


def test_nobody_has_arrived_at_a_new_gate_and_it_is_closed(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate")

    assert gate.arrivals == ()
    assert not gate.is_open


async def test_the_arrival_of_another_process_is_seen_and_let_through(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate")
    process = await _start_arriving_process(tmp_path / "gate")

    assert await gate.wait_for_arrivals() == (process.pid,)
    assert process.returncode is None
    gate.open()
    assert await process.wait() == 0


async def test_a_killed_process_leaves_its_arrival_behind(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate")
    process = await _start_arriving_process(tmp_path / "gate")
    await gate.wait_for_arrivals()
    process.kill()
    await process.wait()

    assert gate.arrivals == (process.pid,)
    assert not gate.is_open


async def test_a_gate_that_nobody_opens_is_given_up(tmp_path: Path) -> None:
    gate = FileGate(tmp_path / "gate", timeout=0.01)

    with pytest.raises(TimeoutError, match=r"the gate .* to open: not within 0\.01 s"):
        await gate.arrive()
    with pytest.raises(TimeoutError, match=r"the gate .* to open: not within 0\.01 s"):
        gate.arrive_blocking()
    with pytest.raises(TimeoutError, match=r"3 arrivals at the gate .*: not within 0\.01 s"):
        await gate.wait_for_arrivals(3)


def test_a_bound_that_is_not_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^timeout: must be more than 0 seconds"):
        FileGate(tmp_path / "gate", timeout=0)
