"""How benches measure: interleaved rounds, CPU time of the thread, ratios of the same round.

A neighbour on a shared machine slows every candidate of a round alike, so the ratio within a round
holds where absolute times do not. A result is the median of those ratios, shown with its extremes.
"""

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Ratio",
    "environment_line",
    "format_spread",
    "geometric_mean",
    "measure_rounds",
    "print_table",
    "sample_sync_milliseconds",
    "speed_ratio",
]

Clock = Callable[[], float]


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one candidate was as another, over the rounds of one run."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        """The median, then the extremes in brackets."""
        return f"{self.median:.2f}x ({self.lowest:.2f}..{self.highest:.2f})"


def measure_rounds(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    seconds_a_sample: float = 0.03,
    clock: Clock = time.thread_time,
) -> dict[str, list[float]]:
    """Time every candidate once a round, in an order that rotates.

    Args:
        candidates: What to call, by name.
        rounds: How many samples each candidate gives; five at least for a ratio worth printing.
        seconds_a_sample: How long one sample should take; calls repeat until it is filled.
        clock: Seconds so far. The default counts the CPU time of this thread, which neighbours that
            preempt it do not change; pass `time.perf_counter` for work that waits.

    Returns:
        Seconds a call, one value a round, by name.
    """
    repeats = {name: _repeats_for(call, seconds_a_sample, clock) for name, call in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    gc_was_enabled = gc.isenabled()
    gc.disable()
    try:
        for round_number in range(rounds):
            first = round_number % len(names)
            for name in names[first:] + names[:first]:
                seconds = _seconds_of(candidates[name], repeats[name], clock)
                samples[name].append(seconds / repeats[name])
    finally:
        if gc_was_enabled:
            gc.enable()
    return samples


def _repeats_for(call: Callable[[], object], seconds: float, clock: Clock) -> int:
    repeats = 1
    while True:
        taken = _seconds_of(call, repeats, clock)
        if taken >= seconds / 4:
            return max(1, round(repeats * seconds / taken))
        repeats *= 4


def _seconds_of(call: Callable[[], object], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return clock() - start


def speed_ratio(slower: Sequence[float], faster: Sequence[float]) -> Ratio:
    """Compare two candidates of one `measure_rounds`, round by round."""
    ratios = [one / other for one, other in zip(slower, faster, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def geometric_mean(ratios: Sequence[Ratio]) -> float:
    """Combine ratios over workloads of different kinds."""
    return statistics.geometric_mean([ratio.median for ratio in ratios])


def environment_line() -> str:
    """Say where a result was measured."""
    load = os.getloadavg()[0]
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}"
    )


def sample_sync_milliseconds(folder: Path, samples: int = 20) -> list[float]:
    """Time syncs of one page on the disk of a folder: below their median no durable work can be."""
    taken: list[float] = []
    with (folder / "sync-probe").open("wb", buffering=0) as probe:
        for _ in range(samples):
            probe.write(bytes(4096))
            begun = time.perf_counter()
            # macOS has no fdatasync.
            getattr(os, "fdatasync", os.fsync)(probe.fileno())
            taken.append(1e3 * (time.perf_counter() - begun))
    return taken


def format_spread(values: Sequence[float], digits: int) -> str:
    """Return a median with its range."""
    median, low, high = (f"{one:.{digits}f}" for one in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}..{high})"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table with aligned columns."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
