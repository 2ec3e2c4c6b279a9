"""Judges a measure by its floor and its goal, one printed line each.

A missed bound is named and changes no exit status: a bench fails when it could not measure, or when an output
was wrong. Whether a machine that others use has slowed one candidate alone is for its reader to say.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Verdict", "print_verdicts", "tell_slow_disk"]

_SLOW_DISK_MILLISECONDS: Final = 3.0
"""Above it, what waits for one sync after the other measures the disk, and slow code passes beside it too."""


@dataclass(frozen=True)
class Verdict:
    """A measure beside what is asked of it.

    Attributes:
        measure: What was compared with what.
        value: The median ratio.
        goal: What is aimed at.
        floor: What it must not be worse than, where that is less than the goal.
        is_upper_bound: Whether smaller values are better.
        skipped: Why it cannot be judged on this machine; empty when it can.
    """

    measure: str
    value: float
    goal: float
    floor: float | None = None
    is_upper_bound: bool = False
    skipped: str = ""

    def __str__(self) -> str:
        """The measure, its value, and what became of each bound."""
        told = f"{self.measure}: {self.value:.2f}x"
        if self.skipped:
            return f"{told}; not judged: {self.skipped}"
        bounds = [("goal", self.goal)] if self.floor is None else [("floor", self.floor), ("goal", self.goal)]
        word = "at most" if self.is_upper_bound else "at least"
        judged = (f"{name} {word} {bound:g}x {self._judge(bound)}" for name, bound in bounds)
        return f"{told}; {', '.join(judged)}"

    def _judge(self, bound: float) -> str:
        is_met = self.value <= bound if self.is_upper_bound else self.value >= bound
        return "met" if is_met else "MISSED"


def tell_slow_disk(sync_milliseconds: Sequence[float]) -> str:
    """Return why sequential work cannot be judged on this disk, or nothing when it can."""
    sync = statistics.median(sync_milliseconds)
    if sync <= _SLOW_DISK_MILLISECONDS:
        return ""
    return f"fdatasync p50 is {sync:.2f} ms, so the disk is measured"


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print a line for each, and how many bounds were missed."""
    print("\nJudged by the median of the ratios within a round:")
    for verdict in verdicts:
        print(f"  {verdict}")
    missed = sum(str(verdict).count("MISSED") for verdict in verdicts)
    print(f"  {missed} bound{'' if missed == 1 else 's'} missed")
