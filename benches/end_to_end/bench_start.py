"""How long the command and the package take to start, beside `python -c pass`.

    python -m benches.end_to_end.bench_start [--rounds N]

Times `import dex_agents`, `dex-agents --help`, `--version` and `chat` in a terminal up to
the moment a line can be typed, and `import langgraph` where it is installed. Rounds are interleaved and the
median is shown with the range. The chat uses a home folder of its own, made before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import pty
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

PROMPT = b"\x1b[?2004h"
"""A prompt tells the terminal to mark what is pasted."""

HELP = ("-m", "dex_agents", "--help")


def run(*arguments: str) -> float:
    """Run Python to its end and return the seconds."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def chat_to_prompt(home: Path) -> float:
    """Start a chat in a terminal, and return the seconds until a line can be typed."""
    started = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "dex_agents", "chat"], environment)  # noqa: S606
    try:
        shown = b""
        while PROMPT not in shown:
            shown += os.read(terminal, 4096)
        return time.perf_counter() - started
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def stop_host(home: Path) -> None:
    """End the host that the chats have started, if it came to that."""
    subprocess.run(
        [sys.executable, "-m", "dex_agents", "stop"], env={**os.environ, "HOME": str(home)}, check=False
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    home = Path(tempfile.mkdtemp(prefix="start-"))
    candidates: dict[str, Callable[[], float]] = {
        "python -c pass": lambda: run("-c", "pass"),
        "import dex_agents": lambda: run("-c", "import dex_agents"),
        "from dex_agents import AgentWorker": lambda: run("-c", "from dex_agents import AgentWorker"),
        "dex-agents --version": lambda: run("-m", "dex_agents", "--version"),
        "dex-agents --help": lambda: run(*HELP),
        "dex-agents chat, to its first prompt": lambda: chat_to_prompt(home),
    }
    if importlib.util.find_spec("langgraph") is not None:
        candidates["import langgraph.graph"] = lambda: run("-c", "import langgraph.graph")
    times: dict[str, list[float]] = defaultdict(list)
    try:
        shown = subprocess.run([sys.executable, *HELP], check=True, capture_output=True, text=True).stdout
        assert "chat" in shown, shown
        for candidate in candidates.values():
            candidate()
        for _ in range(rounds):
            for name, candidate in candidates.items():
                times[name].append(candidate())
    finally:
        stop_host(home)
        shutil.rmtree(home)
    floor = statistics.median(times["python -c pass"])
    print(f"{platform.platform()}, Python {platform.python_version()}, {rounds} rounds")
    print(f"{'':40}{'median':>10}{'range':>20}{'to pass':>10}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        spread = f"{min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f} ms"
        print(f"{name:40}{median * 1e3:>7.0f} ms{spread:>20}{median / floor:>9.1f}x")


if __name__ == "__main__":
    main()
