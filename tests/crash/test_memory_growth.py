"""The soak's judge of memory sees growth, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from random import Random

import pytest

from tests.crash.memory_growth import (
    FEWEST_TURNS,
    LEAK_KILOBYTES_PER_TURN,
    TURNS_TO_SETTLE,
    MemoryGrowth,
    MemorySample,
    read_memory_kilobytes,
)

TURNS_A_SAMPLE = FEWEST_TURNS // 100


SETTLED = 40 * TURNS_TO_SETTLE


def _growth(
    engine: Callable[[int], float], *, samples: int = 200, begun_before: int = SETTLED
) -> MemoryGrowth:
    """Return what is seen of an engine on 40 sessions, whose memory follows from the turns."""
    turns = (place * TURNS_A_SAMPLE for place in range(samples))
    samples_taken = (MemorySample(one, 100_000 + round(engine(one)), 0, 0) for one in turns)
    return MemoryGrowth(40, -begun_before, samples_taken)


def test_memory_that_every_turn_leaves_behind_is_a_leak() -> None:
    noise = Random(1)
    growth = _growth(lambda turns: turns * LEAK_KILOBYTES_PER_TURN * 1.2 + noise.uniform(-3000, 3000))
    assert growth.find_leak() is not None


def test_memory_that_comes_and_goes_is_no_leak() -> None:
    noise = Random(2)
    assert _growth(lambda _: noise.uniform(-20_000, 20_000)).find_leak() is None


def test_one_step_up_is_no_leak() -> None:
    assert _growth(lambda turns: 30_000 if turns > FEWEST_TURNS // 4 else 0).find_leak() is None


def test_memory_that_is_given_back_is_no_leak() -> None:
    assert _growth(lambda turns: -turns * LEAK_KILOBYTES_PER_TURN * 2).find_leak() is None


def test_growth_over_few_turns_is_shown_and_not_judged() -> None:
    growth = _growth(lambda turns: turns * 100, samples=50)
    assert growth.find_leak() is None
    assert f"over {growth.turns} calm turns, not judged: engine 100000 KB/1000 turns" in str(growth)


def test_growth_while_sessions_still_become_older_is_shown_and_not_judged() -> None:
    growth = _growth(lambda turns: turns * 100, begun_before=SETTLED - 1)
    assert growth.find_leak() is None
    assert "not judged" in str(growth)
    assert _growth(lambda turns: turns * 100, begun_before=SETTLED).find_leak() is not None


def test_no_samples_are_not_judged() -> None:
    assert MemoryGrowth(40, 0).find_leak() is None
    assert "over 0 calm turns, not judged" in str(MemoryGrowth(40, 0))


def test_what_a_process_has_written_to_is_its_memory() -> None:
    before = read_memory_kilobytes(os.getpid())
    written = b"x" * (64 * 1024 * 1024)
    assert read_memory_kilobytes(os.getpid()) - before > len(written) // 1024 // 2


def test_a_process_that_has_ended_has_no_memory() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(OSError, match="has ended"):
            read_memory_kilobytes(process.pid)
    with pytest.raises(OSError, match="No such file"):
        read_memory_kilobytes(process.pid)
