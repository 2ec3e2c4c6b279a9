"""`make bench-turns`: durable turns a second, and what a turn costs in a long session, beside LangGraph.

A turn is a question, a model that asks for two tools, both tools in parallel, and an answer; the model is a
script without delay. In every round each candidate runs in a process of its own on a fresh store, in an order
that rotates; ratios compare candidates of the same round. Output is checked before and after the clock runs:
the answers, the tool runs, and every stored message after the store was opened again.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benches.compare.turn_candidates import CANDIDATES, Candidate
from benches.measurement import environment_line, print_table, speed_ratio
from benches.workloads.turns import CONTENT_BYTES_A_TURN, MESSAGES_A_TURN
from dex_agents import _native

_REPOSITORY: Final = Path(__file__).parents[2]
_PEER_SECONDS: Final = 180.0
"""Bound of one candidate in one round."""

_SHAPES: Final = {1: (4, 8), 16: (16, 3), 64: (64, 2)}
"""Sessions and turns of each, by sessions at once; long sessions are the other table's question."""

_FILLED_TURNS: Final = (2, 20, 200)
_HISTORY_TURNS: Final = 9
"""Turns at each length, of which the first is not timed."""

Result = dict[str, Any]


@dataclass
class _Results:
    """What was measured, one entry a completed round."""

    turns: dict[str, list[Result]] = field(default_factory=dict[str, list[Result]])
    history: dict[str, list[Result]] = field(default_factory=dict[str, list[Result]])
    rounds: int = 0


def main() -> None:
    """Measure, then print both tables."""
    parser = argparse.ArgumentParser(
        description="Durable turns beside LangGraph with its SQLite checkpointer."
    )
    parser.add_argument("--rounds", type=int, default=5, help="five at least for a ratio worth quoting")
    parser.add_argument("--sessions", default="1,16,64", help="sessions at once, comma separated")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument(
        "--seconds", type=float, default=330.0, help="begin no round that would end after so many seconds"
    )
    arguments = parser.parse_args()
    levels = _parse_levels(parser, arguments.sessions, is_quick=arguments.quick)
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    if _native.build_profile != "release":
        sys.exit("bench_turns: the extension is a development build; run `make bench-turns`")
    rounds = 1 if arguments.quick else arguments.rounds
    filled = _FILLED_TURNS[:2] if arguments.quick else _FILLED_TURNS
    with tempfile.TemporaryDirectory(prefix="bench-turns-") as folder:
        _print_environment(Path(folder))
        results = _measure(Path(folder), rounds, arguments.seconds, levels, filled)
    print(f"\n{results.rounds} of {rounds} rounds, {environment_line().rpartition(', ')[2]} at the end")
    for level in levels:
        _print_level(results, level)
    _print_history(results, [turns * MESSAGES_A_TURN for turns in filled])


def _parse_levels(parser: argparse.ArgumentParser, text: str, *, is_quick: bool) -> list[dict[str, int]]:
    levels: list[dict[str, int]] = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) < 1:
            parser.error(f"--sessions: {part!r} is not a number of sessions")
        at_once = int(part)
        sessions, turns = _SHAPES.get(at_once, (at_once, 3))
        if is_quick:
            turns = min(turns, 2)
        levels.append({"at_once": at_once, "sessions": sessions, "turns": turns})
    if len({level["at_once"] for level in levels}) < len(levels):
        parser.error("--sessions: a number is named twice")
    return levels


def _measure(
    folder: Path, rounds: int, seconds: float, levels: Sequence[dict[str, int]], filled: Sequence[int]
) -> _Results:
    begun = time.monotonic()
    with_history = [candidate for candidate in CANDIDATES if candidate.in_history]
    for place, candidate in enumerate(with_history):
        _say(f"filling sessions: {candidate.name}")
        store = _new_folder(folder / f"filled-{place}")
        _run_peer(candidate, store, {"kind": "fill", "turns": filled})
    results = _Results()
    longest_round = 0.0
    for number in range(rounds):
        round_begun = time.monotonic()
        if number and round_begun - begun + longest_round > seconds:
            break
        turns: dict[str, Result] = {}
        history: dict[str, Result] = {}
        for candidate in _rotate(CANDIDATES, number):
            _say(f"round {number + 1} of {rounds}: {candidate.name}")
            store = _new_folder(folder / "turns")
            turns[candidate.name] = _run_peer(candidate, store, {"kind": "turns", "levels": levels})
            shutil.rmtree(store)
            if candidate.in_history:
                store = folder / "history"
                shutil.copytree(folder / f"filled-{with_history.index(candidate)}", store)
                plan = {"kind": "history", "filled": filled, "turns": _HISTORY_TURNS}
                history[candidate.name] = _run_peer(candidate, store, plan)
                shutil.rmtree(store)
        for name, result in turns.items():
            results.turns.setdefault(name, []).append(result)
        for name, result in history.items():
            results.history.setdefault(name, []).append(result)
        results.rounds += 1
        longest_round = max(longest_round, time.monotonic() - round_begun)
    return results


def _run_peer(candidate: Candidate, folder: Path, plan: dict[str, Any]) -> Result:
    command = [sys.executable, "-m", candidate.module, *candidate.arguments]
    command += ["--folder", str(folder), "--plan", json.dumps(plan)]
    # gRPC's core logs connections that close; what it says is kept for a peer that fails.
    done = subprocess.run(
        command, cwd=_REPOSITORY, capture_output=True, text=True, timeout=_PEER_SECONDS, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        sys.exit(f"bench_turns: {candidate.name} failed ({done.returncode}):\n{done.stderr[-4000:]}")
    result: Result = json.loads(lines[-1])
    return result


def _print_environment(folder: Path) -> None:
    print("Turns: a question, two tools in parallel, an answer; scripted model without delay.")
    print(f"machine: {environment_line()}, {_cpu_name()}, fdatasync p50 {_sync_milliseconds(folder):.2f} ms")
    print(f"dex_agents: commit {_commit()}, extension {_native.__version__} {_native.build_profile}")
    packages = ("dex-python-sdk", "grpcio", "langgraph", "langgraph-checkpoint-sqlite", "aiosqlite")
    print("versions: " + ", ".join(f"{package} {version(package)}" for package in packages))
    print("durability:")
    for candidate in CANDIDATES:
        print(f"  {candidate.name}: {candidate.promise}")
    print(
        "Sessions are started before the clock (LangGraph has no such call). A dex_agents turn ends when\n"
        "its client knows that it is stored, a LangGraph turn when ainvoke returns.\n"
        "p50 and p99 are over the turns of all rounds. CPU counts every process of a candidate."
    )


def _print_level(results: _Results, level: dict[str, int]) -> None:
    at_once, sessions, turns = str(level["at_once"]), level["sessions"], level["turns"]
    seconds = {
        name: [one["levels"][at_once]["seconds"] / one["levels"][at_once]["turns"] for one in rounds]
        for name, rounds in results.turns.items()
    }
    theirs = [candidate.name for candidate in CANDIDATES if not candidate.is_ours]
    best = [min(seconds[name][place] for name in theirs) for place in range(results.rounds)]
    rows: list[list[str]] = []
    for candidate in CANDIDATES:
        own = seconds[candidate.name]
        latencies = [
            latency
            for one in results.turns[candidate.name]
            for latency in one["levels"][at_once]["latencies"]
        ]
        cpu = [one["levels"][at_once]["cpu_seconds"] for one in results.turns[candidate.name]]
        turns_a_round = results.turns[candidate.name][0]["levels"][at_once]["turns"]
        rows.append(
            [
                candidate.name,
                _spread([1 / one for one in own], "{:.1f}"),
                f"{1e3 * _percentile(latencies, 0.5):.1f}",
                f"{1e3 * _percentile(latencies, 0.99):.1f}",
                str(speed_ratio(best, own)),
                str(speed_ratio(seconds[theirs[-1]], own)),
                "-" if None in cpu else f"{1e3 * statistics.median(cpu) / turns_a_round:.1f}",
            ]
        )
    print(
        f"\n{at_once} session{'s' if at_once != '1' else ''} at once "
        f"({sessions} sessions of {turns} turns a round)"
    )
    head = ["", "turns/s", "p50 ms", "p99 ms", "vs best LangGraph", f"vs {theirs[-1]}", "CPU ms a turn"]
    print_table(head, rows)


def _print_history(results: _Results, lengths: Sequence[int]) -> None:
    print(
        f"\nCost of a turn by messages stored before (medians of {_HISTORY_TURNS - 1} turns a round; "
        f"a turn adds {MESSAGES_A_TURN} messages, {CONTENT_BYTES_A_TURN} bytes of content)"
    )
    names = [candidate.name for candidate in CANDIDATES if candidate.in_history]
    theirs = [candidate.name for candidate in CANDIDATES if candidate.in_history and not candidate.is_ours]

    def medians(name: str, length: int) -> list[float]:
        return [statistics.median(one[str(length)]["seconds"]) for one in results.history[name]]

    rows: list[list[str]] = []
    for name in names:
        for length in lengths:
            own, short = medians(name, length), medians(name, lengths[0])
            peers = [medians(peer, length) for peer in theirs]
            best = [min(of_round) for of_round in zip(*peers, strict=True)]
            rounds = [one[str(length)] for one in results.history[name]]
            growth = statistics.median(one["bytes_a_turn"] for one in rounds)
            rows.append(
                [
                    name,
                    f"{length:,}",
                    _spread([1e3 * one for one in own], "{:.1f}"),
                    str(speed_ratio(own, short)),
                    str(speed_ratio(best, own)),
                    f"{growth:,.0f}",
                    f"{growth / CONTENT_BYTES_A_TURN:.1f}x",
                    _spread([1e3 * one["read_seconds"] for one in rounds], "{:.1f}"),
                ]
            )
    head = ["", "messages", "ms a turn", f"cost vs {lengths[0]}", "speed vs best LangGraph"]
    print_table([*head, "bytes grown a turn", "of content", "ms to read all"], rows)


def _spread(values: Sequence[float], form: str) -> str:
    show: Callable[[float], str] = form.format
    return f"{show(statistics.median(values))} ({show(min(values))}..{show(max(values))})"


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _rotate(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    first = number % len(candidates)
    return [*candidates[first:], *candidates[:first]]


def _new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def _say(text: str) -> None:
    print(f"bench_turns: {text}", file=sys.stderr, flush=True)


def _sync_milliseconds(folder: Path, samples: int = 50) -> float:
    """Say what a sync of this disk costs: below it no durable turn can be."""
    taken: list[float] = []
    with (folder / "sync-probe").open("wb", buffering=0) as probe:
        for _ in range(samples):
            probe.write(bytes(4096))
            begun = time.perf_counter()
            # macOS has no fdatasync.
            getattr(os, "fdatasync", os.fsync)(probe.fileno())
            taken.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(taken)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "CPU unknown"


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    run = [git, "-C", str(_REPOSITORY)]
    head = subprocess.run([*run, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode != 0:
        return "unknown"
    changes = subprocess.run([*run, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + (" with uncommitted changes" if changes.stdout else "")


if __name__ == "__main__":
    main()
