"""Runs turns on one library in this process: checks the library's output, then times it.

A library is a `TurnPeer`. Its process is given one plan, prints one line of JSON and ends, so that no library
pays for another's imports, garbage or threads.
"""

import argparse
import asyncio
import gc
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from benches.workloads.turns import MESSAGES_A_TURN, TOOLS, StoredMessage, build_question, expect_messages

__all__ = [
    "STORE_NAME",
    "LongSessionPeer",
    "OpenPeer",
    "TurnPeer",
    "add_plan_arguments",
    "read_cpu_seconds",
    "run_plan",
]

STORE_NAME: Final = "store.db"
"""The database file in the folder that a peer is given."""

_CHECKED_SESSIONS: Final = ("check-1", "check-2")
_CHECKED_TURNS: Final = 2
_WARM_UP_TURNS: Final = 5


class TurnPeer(Protocol):
    """A library that runs durable turns on a store."""

    async def count_tool_runs(self) -> int:
        """Say how often a tool was run since this object was made."""
        ...

    async def start_session(self, session_id: str) -> None:
        """Make a session, if the library knows such a thing."""
        ...

    async def run_turn(self, session_id: str, question: str) -> None:
        """Send a user's message and return once its answer is stored."""
        ...

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read a whole session from the store."""
        ...

    def read_cpu_seconds(self) -> float | None:
        """Return the CPU seconds so far of all its processes, or `None` where the system hides them."""
        ...


@runtime_checkable
class LongSessionPeer(TurnPeer, Protocol):
    """A library that keeps the whole conversation, so that a turn reads what came before."""

    async def fill_session(self, session_id: str, turns: int) -> None:
        """Put so many turns into a new session, in the cheapest way that leaves the state of real turns."""
        ...


OpenPeer = Callable[[Path], AbstractAsyncContextManager[TurnPeer]]
"""Opens a library on the store in a folder, and closes it so that the store can be opened again."""


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_plan` reads."""
    parser.add_argument("--folder", type=Path, required=True, help="where the store is, or is made")
    parser.add_argument("--plan", type=json.loads, required=True, help="what to do, as JSON")


def read_cpu_seconds(*other_processes: int) -> float | None:
    """Return the CPU seconds so far of this process and of others, or `None` where the system hides them."""
    seconds = time.process_time()
    for process in other_processes:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        # User and system time are fields 14 and 15; the second field is in brackets and may hold anything.
        after_name = stat.rpartition(")")[2].split()
        seconds += (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def run_plan(open_peer: OpenPeer, arguments: argparse.Namespace) -> None:
    """Do what the orchestrator asked for and print the result as one line of JSON."""
    plan: dict[str, Any] = arguments.plan
    folder: Path = arguments.folder
    result: dict[str, Any]
    match plan["kind"]:
        case "turns":
            result = asyncio.run(_measure_turns(open_peer, folder, plan["levels"]))
        case "fill":
            asyncio.run(_fill(open_peer, folder, plan["turns"]))
            result = {}
        case "history":
            result = asyncio.run(_measure_history(open_peer, folder, plan["filled"], plan["turns"]))
        case kind:
            sys.exit(f"no plan is called {kind!r}")
    print(json.dumps(result), flush=True)


async def _measure_turns(
    open_peer: OpenPeer, folder: Path, levels: Sequence[dict[str, int]]
) -> dict[str, Any]:
    checked, timed = _new_folder(folder / "checked"), _new_folder(folder / "timed")
    await _check(open_peer, checked)
    result: dict[str, Any] = {"levels": {}}
    expected: dict[str, int] = {}
    async with open_peer(timed) as peer:
        await peer.start_session("warm-up")
        await _run_session(peer, "warm-up", _WARM_UP_TURNS)
        before = await peer.count_tool_runs()
        for level in levels:
            at_once, sessions, turns = level["at_once"], level["sessions"], level["turns"]
            names = [f"{at_once}-{number}" for number in range(sessions)]
            for name in names:
                await peer.start_session(name)
                expected[name] = turns
            # What the sessions before left behind is not this level's to collect.
            gc.collect()
            begun, cpu_begun = time.perf_counter(), peer.read_cpu_seconds()
            latencies = await _run_lanes(peer, names, at_once, turns)
            seconds, cpu_ended = time.perf_counter() - begun, peer.read_cpu_seconds()
            result["levels"][str(at_once)] = {
                "turns": sessions * turns,
                "seconds": seconds,
                "latencies": latencies,
                "cpu_seconds": None if cpu_begun is None or cpu_ended is None else cpu_ended - cpu_begun,
            }
        await _require_tools(peer, before, sum(expected.values()))
    async with open_peer(timed) as peer:
        for name, turns in expected.items():
            await _require_messages(peer, name, turns)
    return result


async def _fill(open_peer: OpenPeer, folder: Path, turn_counts: Sequence[int]) -> None:
    async with open_peer(folder) as peer:
        if not isinstance(peer, LongSessionPeer):
            sys.exit("this library keeps no conversation")
        await asyncio.gather(*(peer.fill_session(f"long-{turns}", turns) for turns in turn_counts))
    async with open_peer(folder) as peer:
        for turns in turn_counts:
            await _require_messages(peer, f"long-{turns}", turns)


async def _measure_history(
    open_peer: OpenPeer, folder: Path, turn_counts: Sequence[int], turns: int
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for filled in turn_counts:
        name = f"long-{filled}"
        bytes_before = _used_bytes(folder)
        async with open_peer(folder) as peer:
            before = await peer.count_tool_runs()
            await peer.run_turn(name, build_question(filled))
            gc.collect()
            seconds: list[float] = []
            for turn in range(filled + 1, filled + turns):
                begun = time.perf_counter()
                await peer.run_turn(name, build_question(turn))
                seconds.append(time.perf_counter() - begun)
            await _require_tools(peer, before, turns)
        bytes_after = _used_bytes(folder)
        async with open_peer(folder) as peer:
            begun = time.perf_counter()
            await _require_messages(peer, name, filled + turns)
            read_seconds = time.perf_counter() - begun
        result[str(filled * MESSAGES_A_TURN)] = {
            "seconds": seconds,
            "bytes_a_turn": (
                None if bytes_before is None or bytes_after is None else (bytes_after - bytes_before) / turns
            ),
            "read_seconds": read_seconds,
        }
    return result


async def _check(open_peer: OpenPeer, folder: Path) -> None:
    async with open_peer(folder) as peer:
        for name in _CHECKED_SESSIONS:
            await peer.start_session(name)
        await asyncio.gather(*(_run_session(peer, name, _CHECKED_TURNS) for name in _CHECKED_SESSIONS))
        await _require_tools(peer, 0, len(_CHECKED_SESSIONS) * _CHECKED_TURNS)
    async with open_peer(folder) as peer:
        for name in _CHECKED_SESSIONS:
            await _require_messages(peer, name, _CHECKED_TURNS)


async def _run_lanes(peer: TurnPeer, names: Sequence[str], at_once: int, turns: int) -> list[float]:
    """Run every session to its end, so many sessions at once; return the seconds of each turn."""
    latencies: list[float] = []
    waiting = iter(names)

    async def lane() -> None:
        for name in waiting:
            latencies.extend(await _run_session(peer, name, turns))

    await asyncio.gather(*(lane() for _ in range(at_once)))
    return latencies


async def _run_session(peer: TurnPeer, name: str, turns: int) -> list[float]:
    latencies: list[float] = []
    for turn in range(turns):
        begun = time.perf_counter()
        await peer.run_turn(name, build_question(turn))
        latencies.append(time.perf_counter() - begun)
    return latencies


async def _require_messages(peer: TurnPeer, name: str, turns: int) -> None:
    messages = await peer.read_messages(name)
    expected = expect_messages(turns)
    if messages != expected:
        first = next(
            (place for place, pair in enumerate(zip(messages, expected, strict=False)) if pair[0] != pair[1]),
            min(len(messages), len(expected)),
        )
        sys.exit(
            f"session {name!r} holds {len(messages)} messages of {len(expected)}; number {first + 1} is "
            f"{messages[first] if first < len(messages) else 'missing'}"
        )


async def _require_tools(peer: TurnPeer, before: int, turns: int) -> None:
    runs, expected = await peer.count_tool_runs() - before, turns * len(TOOLS)
    if runs != expected:
        sys.exit(f"tools ran {runs} times in {turns} turns, {expected} were asked for")


def _new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def _used_bytes(folder: Path) -> int | None:
    """Return the bytes of pages in use, of a closed database: free pages are not growth.

    A library whose store is no SQLite file gets `None`: what its folder holds depends on when it is tidied.
    """
    path = folder / STORE_NAME
    if not path.exists():
        return None
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size
