"""The tables of `bench_turns`, and the floors and goals that its ratios are judged by."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benches.compare.turn_candidates import Candidate
from benches.measurement import format_spread, print_table, speed_ratio
from benches.verdicts import Verdict, tell_slow_disk
from benches.workloads.turns import CONTENT_BYTES_A_TURN, MESSAGES_A_TURN

__all__ = ["TurnResult", "TurnResults", "judge_turns", "print_history", "print_level"]

TurnResult = dict[str, Any]
"""What a candidate's process printed; see `benches.end_to_end.turns_driver`."""

_SPEED_BOUNDS: Final = {1: (1.5, 3.0), 16: (2.0, 8.0), 64: (2.0, 15.0)}
"""Floor and goal of turns a second against the best durable peer, by sessions at once."""

_TAIL_BOUNDS: Final = {64: (4.0, 2.0)}
"""Floor and goal of p99 against p50, by sessions at once."""

_GROWTH_BOUNDS: Final = (1.3, 1.1)
"""Floor and goal of a turn's cost in a long session against a short one."""


@dataclass
class TurnResults:
    """What was measured, one entry a completed round.

    Attributes:
        candidates: Who was measured.
        turns: Turns by sessions at once, by candidate.
        history: Turns by messages stored before, by candidate.
        sync_milliseconds: Syncs of the disk, sampled beside each candidate.
        rounds: How many rounds were completed.
    """

    candidates: Sequence[Candidate]
    turns: dict[str, list[TurnResult]] = field(default_factory=dict[str, list[TurnResult]])
    history: dict[str, list[TurnResult]] = field(default_factory=dict[str, list[TurnResult]])
    sync_milliseconds: list[float] = field(default_factory=list[float])
    rounds: int = 0

    def name_peers(self) -> list[str]:
        """Return the candidates that are not dex_agents."""
        return [candidate.name for candidate in self.candidates if not candidate.is_ours]

    def name_judged(self) -> str:
        """Return the candidate that is judged: dex_agents as it ships."""
        return next(candidate.name for candidate in self.candidates if candidate.is_ours)

    def seconds_a_turn(self, name: str, at_once: int) -> list[float]:
        """Return the seconds of a turn, one value a round."""
        levels = [one["levels"][str(at_once)] for one in self.turns[name]]
        return [level["seconds"] / level["turns"] for level in levels]

    def best_peer_seconds(self, at_once: int) -> list[float]:
        """Return the seconds of a turn of the fastest peer of each round."""
        peers = [self.seconds_a_turn(name, at_once) for name in self.name_peers()]
        return [min(of_round) for of_round in zip(*peers, strict=True)]

    def latencies(self, name: str, at_once: int) -> list[float]:
        """Return the seconds of every turn of all rounds."""
        return [one for result in self.turns[name] for one in result["levels"][str(at_once)]["latencies"]]

    def seconds_in_history(self, name: str, messages: int) -> list[float]:
        """Return the median seconds of a turn over so many stored messages, one value a round."""
        return [statistics.median(one[str(messages)]["seconds"]) for one in self.history[name]]


def print_level(results: TurnResults, level: dict[str, int]) -> None:
    """Print turns with so many sessions at once."""
    at_once, sessions, turns = level["at_once"], level["sessions"], level["turns"]
    best = results.best_peer_seconds(at_once)
    rows: list[list[str]] = []
    for candidate in results.candidates:
        own = results.seconds_a_turn(candidate.name, at_once)
        latencies = results.latencies(candidate.name, at_once)
        cpu = [one["levels"][str(at_once)]["cpu_seconds"] for one in results.turns[candidate.name]]
        rows.append(
            [
                candidate.name,
                format_spread([1 / one for one in own], 1),
                f"{1e3 * _percentile(latencies, 0.5):.1f}",
                f"{1e3 * _percentile(latencies, 0.99):.1f}",
                str(speed_ratio(best, own)),
                "-" if None in cpu else f"{1e3 * statistics.median(cpu) / (sessions * turns):.1f}",
            ]
        )
    print(f"\n{_count_sessions(at_once)} at once ({sessions} sessions of {turns} turns a round)")
    print_table(["", "turns/s", "p50 ms", "p99 ms", "vs best durable peer", "CPU ms a turn"], rows)


def print_history(results: TurnResults, lengths: Sequence[int], turns: int) -> None:
    """Print the cost of a turn by the messages that were stored before, of those that keep them."""
    print(
        f"\nCost of a turn by messages stored before (medians of {turns} turns a round; "
        f"a turn adds {MESSAGES_A_TURN} messages, {CONTENT_BYTES_A_TURN} bytes of content;\n"
        "growth is that of a SQLite file, and not told of other stores)"
    )
    peers = [name for name in results.name_peers() if name in results.history]
    rows: list[list[str]] = []
    for name in (candidate.name for candidate in results.candidates if candidate.in_history):
        for length in lengths:
            own, short = (results.seconds_in_history(name, each) for each in (length, lengths[0]))
            of_peers = [results.seconds_in_history(peer, length) for peer in peers]
            best = [min(of_round) for of_round in zip(*of_peers, strict=True)]
            rounds = [one[str(length)] for one in results.history[name]]
            growth = [one["bytes_a_turn"] for one in rounds]
            grown = None if None in growth else statistics.median(growth)
            rows.append(
                [
                    name,
                    f"{length:,}",
                    format_spread([1e3 * one for one in own], 1),
                    str(speed_ratio(own, short)),
                    str(speed_ratio(best, own)),
                    "-" if grown is None else f"{grown:,.0f}",
                    "-" if grown is None else f"{grown / CONTENT_BYTES_A_TURN:.1f}x",
                    format_spread([1e3 * one["read_seconds"] for one in rounds], 1),
                ]
            )
    head = ["", "messages", "ms a turn", f"cost vs {lengths[0]}", "speed vs best durable peer"]
    print_table([*head, "bytes grown a turn", "of content", "ms to read all"], rows)


def judge_turns(results: TurnResults, levels: Sequence[int], lengths: Sequence[int]) -> list[Verdict]:
    """Judge dex_agents as it ships: its speed beside the peers, its tail, and its cost in a long session."""
    judged = results.name_judged()
    slow_disk = tell_slow_disk(results.sync_milliseconds)
    verdicts: list[Verdict] = []
    for at_once in levels:
        sessions = _count_sessions(at_once)
        if at_once in _SPEED_BOUNDS:
            ratio = speed_ratio(results.best_peer_seconds(at_once), results.seconds_a_turn(judged, at_once))
            floor, goal = _SPEED_BOUNDS[at_once]
            skipped = slow_disk if at_once == 1 else ""
            measure = f"turns/s of {judged}, {sessions}, vs the best durable peer"
            verdicts.append(Verdict(measure, ratio.median, goal, floor, skipped=skipped))
        if at_once in _TAIL_BOUNDS:
            latencies = results.latencies(judged, at_once)
            tail = _percentile(latencies, 0.99) / _percentile(latencies, 0.5)
            floor, goal = _TAIL_BOUNDS[at_once]
            verdicts.append(Verdict(f"p99 vs p50, {sessions}", tail, goal, floor, is_upper_bound=True))
    for length in lengths[1:]:
        seconds = [results.seconds_in_history(judged, each) for each in (length, lengths[0])]
        floor, goal = _GROWTH_BOUNDS
        measure = f"cost of a turn over {length:,} messages vs {lengths[0]}"
        growth = speed_ratio(*seconds).median
        verdicts.append(Verdict(measure, growth, goal, floor, is_upper_bound=True))
    return verdicts


def _count_sessions(at_once: int) -> str:
    return f"{at_once} session{'' if at_once == 1 else 's'}"


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
