"""How long the command and the package take to start, beside `python -c pass` and `import langgraph.graph`.

    python -m benches.end_to_end.bench_start [--rounds N]

Times `import dex_agents`, the first public name, `dex-agents --version`, `--help`, and `chat` in a terminal
up to the moment a line can be typed. The package `langgraph` itself is an empty namespace, so its graph is
imported. Rounds are rotated, ratios are of the same round, and a median is shown with its range. The chat
uses a home folder of its own, made before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import pty
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benches.measurement import environment_line, format_spread, print_table, speed_ratio
from benches.verdicts import Verdict, print_verdicts
from dex_agents import _native

PROMPT: Final = b"\x1b[?2004h"
"""A prompt tells the terminal to mark what is pasted."""

PROMPT_SECONDS: Final = 60.0
HELP: Final = ("-m", "dex_agents", "--help")
BASE: Final = "python -c pass"
PEER: Final = "import langgraph.graph"
ALL_NAMES: Final = "from dex_agents import AgentWorker"
"""The first public name loads them all."""


@dataclass(frozen=True)
class Start:
    """What one start took: seconds, and CPU seconds of its processes."""

    wall: float
    cpu: float


def run(*arguments: str) -> None:
    """Run Python to its end."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def chat_to_prompt(home: Path) -> None:
    """Start a chat in a terminal, and return once a line can be typed."""
    give_up_at = time.monotonic() + PROMPT_SECONDS
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "dex_agents", "chat"], environment)  # noqa: S606
    shown = b""
    try:
        while PROMPT not in shown:
            readable, _, _ = select.select([terminal], [], [], max(0.0, give_up_at - time.monotonic()))
            if not readable:
                sys.exit(f"bench_start: the chat showed no prompt in {PROMPT_SECONDS:.0f} s:\n{shown!r}")
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                # Linux says so when the other end was closed.
                sys.exit(f"bench_start: the chat ended before its prompt:\n{shown!r}")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def time_start(candidate: Callable[[], None]) -> Start:
    """Time a start; processes that it leaves running are not in its CPU seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    candidate()
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Start(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def stop_host(home: Path) -> None:
    """End the host that the chats have started, if it came to that."""
    subprocess.run(
        [sys.executable, "-m", "dex_agents", "stop"], env={**os.environ, "HOME": str(home)}, check=False
    )


def measure(rounds: int) -> dict[str, list[Start]]:
    """Start every candidate once a round, in an order that rotates."""
    home = Path(tempfile.mkdtemp(prefix="start-"))
    candidates: dict[str, Callable[[], None]] = {
        BASE: lambda: run("-c", "pass"),
        "import dex_agents": lambda: run("-c", "import dex_agents"),
        ALL_NAMES: lambda: run("-c", ALL_NAMES),
        "dex-agents --version": lambda: run("-m", "dex_agents", "--version"),
        "dex-agents --help": lambda: run(*HELP),
        "dex-agents chat, to its first prompt": lambda: chat_to_prompt(home),
        PEER: lambda: run("-c", PEER),
    }
    starts: dict[str, list[Start]] = defaultdict(list)
    try:
        shown = subprocess.run([sys.executable, *HELP], check=True, capture_output=True, text=True).stdout
        assert "chat" in shown, shown
        for candidate in candidates.values():
            candidate()
        names = list(candidates)
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                starts[name].append(time_start(candidates[name]))
    finally:
        stop_host(home)
        shutil.rmtree(home)
    return {name: starts[name] for name in candidates}


def main() -> None:
    """Print a table and what is judged by it."""
    parser = argparse.ArgumentParser(description="start of the command and of the package")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_start: the extension is a development build; run `make bench-start`")
    starts = measure(rounds)
    wall = {name: [start.wall for start in of_rounds] for name, of_rounds in starts.items()}
    cpu = {name: [start.cpu for start in of_rounds] for name, of_rounds in starts.items()}
    print(f"{environment_line()}, langgraph {version('langgraph')}, {rounds} rounds\n")
    rows = [
        [
            name,
            format_spread([1e3 * each for each in seconds], 0),
            f"{1e3 * statistics.median(cpu[name]):.0f}",
            str(speed_ratio(seconds, wall[BASE])),
            str(speed_ratio(seconds, wall[PEER])),
        ]
        for name, seconds in wall.items()
    ]
    print_table(["", "ms", "CPU ms", f"time vs {BASE}", f"time vs {PEER}"], rows)
    ratio = speed_ratio(cpu[ALL_NAMES], cpu[PEER]).median
    print_verdicts([Verdict(f"CPU of {ALL_NAMES} vs {PEER}", ratio, 0.1, 0.3, is_upper_bound=True)])


if __name__ == "__main__":
    main()
