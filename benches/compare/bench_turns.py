"""`make bench-turns`: durable turns a second, and what one costs in a long session, beside other libraries.

A turn is a question, a model that asks for two tools, both tools in parallel, and an answer; the model is a
script without delay. In every round each candidate runs in a process of its own on a fresh store, in an order
that rotates; ratios compare candidates of the same round. Output is checked before and after the clock runs:
the answers, the tool runs, and every stored message after the store was opened again.

Floors and goals are judged at the end. The exit status tells whether everything was measured and right, not
whether it was fast.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benches.compare.turn_candidates import Candidate, choose_candidates
from benches.compare.turn_tables import TurnResult, TurnResults, judge_turns, print_history, print_level
from benches.measurement import environment_line, format_spread, sample_sync_milliseconds
from benches.verdicts import print_verdicts
from benches.workloads.turns import MESSAGES_A_TURN
from dex_agents import _native

_REPOSITORY: Final = Path(__file__).parents[2]
_PEER_SECONDS: Final = 180.0
"""Bound of one candidate in one round."""

_SHAPES: Final = {1: (4, 8), 16: (16, 3), 64: (64, 2)}
"""Sessions and turns of each, by sessions at once; long sessions are the other table's question."""

_FILLED_TURNS: Final = (2, 20, 200)
_HISTORY_TURNS: Final = 9
"""Turns at each length, of which the first is not timed."""

_PACKAGES: Final = (
    "dex-python-sdk",
    "grpcio",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "aiosqlite",
    "dbos",
    "sqlalchemy",
    "restate-sdk",
    "hypercorn",
    "httpx",
)


def main() -> None:
    """Measure, then print the tables and what they are judged by."""
    parser = argparse.ArgumentParser(description="Durable turns beside LangGraph, DBOS and Restate.")
    parser.add_argument("--rounds", type=int, default=5, help="five at least for a ratio worth quoting")
    parser.add_argument("--sessions", default="1,16,64", help="sessions at once, comma separated")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument(
        "--seconds", type=float, default=1200.0, help="begin no round that would end after so many seconds"
    )
    parser.add_argument(
        "--node-modules", type=Path, default=Path("none"), help="a folder with Restate's server"
    )
    arguments = parser.parse_args()
    levels = _parse_levels(parser, arguments.sessions, is_quick=arguments.quick)
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    if _native.build_profile != "release":
        sys.exit("bench_turns: the extension is a development build; run `make bench-turns`")
    rounds = 1 if arguments.quick else arguments.rounds
    filled = _FILLED_TURNS[:2] if arguments.quick else _FILLED_TURNS
    restate_server = _find_restate_server(arguments.node_modules)
    candidates = choose_candidates(restate_server)
    _print_environment(candidates, restate_server)
    with tempfile.TemporaryDirectory(prefix="bench-turns-") as folder:
        results = _measure(
            candidates,
            Path(folder),
            rounds=rounds,
            seconds=arguments.seconds,
            levels=levels,
            filled=filled,
        )
    lengths = [turns * MESSAGES_A_TURN for turns in filled]
    print(
        f"\n{results.rounds} of {rounds} rounds, {environment_line().rpartition(', ')[2]} at the end, "
        f"fdatasync p50 {format_spread(results.sync_milliseconds, 2)} ms"
    )
    for level in levels:
        print_level(results, level)
    print_history(results, lengths, _HISTORY_TURNS - 1)
    print_verdicts(judge_turns(results, [level["at_once"] for level in levels], lengths))


def _find_restate_server(node_modules: Path) -> Path | None:
    # npm installs the program of this machine's kind and no other.
    found = sorted(node_modules.glob("@restatedev/restate-server-*/bin/restate-server"))
    return found[0].resolve() if found else None


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
    candidates: Sequence[Candidate],
    folder: Path,
    *,
    rounds: int,
    seconds: float,
    levels: Sequence[dict[str, int]],
    filled: Sequence[int],
) -> TurnResults:
    begun = time.monotonic()
    with_history = [candidate for candidate in candidates if candidate.in_history]
    for place, candidate in enumerate(with_history):
        _say(f"filling sessions: {candidate.name}")
        store = _new_folder(folder / f"filled-{place}")
        _run_peer(candidate, store, {"kind": "fill", "turns": filled})
    results = TurnResults(candidates)
    longest_round = 0.0
    for number in range(rounds):
        round_begun = time.monotonic()
        if number and round_begun - begun + longest_round > seconds:
            break
        turns: dict[str, TurnResult] = {}
        history: dict[str, TurnResult] = {}
        for candidate in _rotate(candidates, number):
            _say(f"round {number + 1} of {rounds}: {candidate.name}")
            # Beside each candidate: a disk that others use may be ten times slower a minute later.
            results.sync_milliseconds += sample_sync_milliseconds(folder)
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


def _run_peer(candidate: Candidate, folder: Path, plan: dict[str, Any]) -> TurnResult:
    command = [sys.executable, "-m", candidate.module, *candidate.arguments]
    command += ["--folder", str(folder), "--plan", json.dumps(plan)]
    # gRPC's core logs connections that close; what it says is kept for a peer that fails.
    done = subprocess.run(
        command, cwd=_REPOSITORY, capture_output=True, text=True, timeout=_PEER_SECONDS, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        sys.exit(f"bench_turns: {candidate.name} failed ({done.returncode}):\n{done.stderr[-4000:]}")
    result: TurnResult = json.loads(lines[-1])
    return result


def _print_environment(candidates: Sequence[Candidate], restate_server: Path | None) -> None:
    print("Turns: a question, two tools in parallel, an answer; scripted model without delay.")
    print(f"machine: {environment_line()}, {_cpu_name()}")
    print(f"dex_agents: commit {_commit()}, extension {_native.__version__} {_native.build_profile}")
    print("versions: " + ", ".join(f"{package} {version(package)}" for package in _PACKAGES))
    if restate_server is None:
        print("Restate: not measured, its server comes from npm; `make bench-turns` installs it where npm is")
    else:
        told = subprocess.run([restate_server, "--version"], capture_output=True, text=True, check=True)
        print(f"Restate's server: {told.stdout.strip()}")
    print("durability:")
    for candidate in candidates:
        print(f"  {candidate.name}: {candidate.promise}")
    print(
        "Sessions are started before the clock (the others have no such call). A turn of dex_agents ends\n"
        "when its client knows that it is stored, of LangGraph when ainvoke returns, of DBOS when its\n"
        "workflow does, of Restate when its server answers. p50 and p99 are over the turns of all rounds.\n"
        "CPU counts every process of a candidate."
    )


def _rotate(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    first = number % len(candidates)
    return [*candidates[first:], *candidates[:first]]


def _new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def _say(text: str) -> None:
    print(f"bench_turns: {text}", file=sys.stderr, flush=True)


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
