"""How much memory processes keep for each turn that they serve."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

__all__ = [
    "FEWEST_TURNS",
    "LEAK_KILOBYTES_PER_TURN",
    "TURNS_TO_SETTLE",
    "MemoryGrowth",
    "MemorySample",
    "fit_slope",
    "read_memory_kilobytes",
]


LEAK_KILOBYTES_PER_TURN: Final = 5.0
"""A turn of the crash agent writes some 45 KB: an engine that keeps one kind of it keeps more than this."""

TURNS_TO_SETTLE: Final = 10
"""In each session, before as many end as begin: until then what they hold grows, and is not kept."""

FEWEST_TURNS: Final = 1500
"""Over fewer, what comes and goes with the sessions may look like as much."""


@dataclass(frozen=True)
class MemorySample:
    """One look.

    Attributes:
        turns: Turns that were over.
        engine: KB of memory that only the engine has.
        workers: The same of all Workers together.
        database: KB of the database file.
    """

    turns: int
    engine: int
    workers: int
    database: int

    def __str__(self) -> str:
        """Spell it for a line of progress."""
        return (
            f"engine {self.engine / 1024:.0f} MB, workers {self.workers / 1024:.0f} MB, "
            f"database {self.database / 1024:.0f} MB"
        )


class MemoryGrowth:
    """Judges what a process keeps, from samples of one life of it that begin when its caches are full."""

    def __init__(self, sessions: int, begun_at: int, samples: Iterable[MemorySample] = ()) -> None:
        """Begin.

        Args:
            sessions: How many are alive at a time.
            begun_at: Turns that were over when the process was started.
            samples: The first ones.
        """
        self._settled_at = begun_at + TURNS_TO_SETTLE * sessions
        self._samples = list(samples)

    def add(self, sample: MemorySample) -> None:
        """Take a sample; it is later than those before."""
        self._samples.append(sample)

    def find_leak(self) -> str | None:
        """Return what is wrong with the engine's memory, or nothing."""
        if not self.is_judged:
            return None
        slope = self._fit("engine")
        return f"the engine kept {slope:.1f} KB of each turn" if slope > LEAK_KILOBYTES_PER_TURN else None

    @property
    def turns(self) -> int:
        """Turns between the first sample and the last."""
        return self._samples[-1].turns - self._samples[0].turns if self._samples else 0

    @property
    def is_judged(self) -> bool:
        """Whether the turns are enough to tell growth from what comes and goes."""
        return self.turns >= FEWEST_TURNS and self._samples[0].turns >= self._settled_at

    def __str__(self) -> str:
        """Spell it for a line of results."""
        judged = "" if self.is_judged else ", not judged"
        return (
            f"memory slope over {self.turns} calm turns{judged}: "
            f"engine {self._fit('engine') * 1000:.0f} KB/1000 turns, "
            f"workers {self._fit('workers') * 1000:.0f} KB/1000 turns, "
            f"database {self._fit('database'):.1f} KB/turn"
        )

    def _fit(self, field: Literal["engine", "workers", "database"]) -> float:
        return fit_slope([(one.turns, getattr(one, field)) for one in self._samples])


def read_memory_kilobytes(process_id: int) -> int:
    """Return the memory that a process has written to and not given back, in KB.

    Raises:
        OSError: There is no such process.
    """
    # Not all that is resident: pages of files come and go with what the system has to spare.
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise OSError(f"process {process_id} has ended")


def fit_slope(points: Sequence[tuple[int, int]]) -> float:
    """Return the slope of a line through points: the median of the slopes between any two (Theil-Sen).

    A step, such as a table that was made anew at twice its size, counts for little; growth counts in full.
    """
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    return statistics.median(slopes) if slopes else 0.0
