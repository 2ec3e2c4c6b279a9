"""Turns of active sessions on an engine whose file holds thousands of idle ones, and on one without.

The idle sessions are of the same agent as the active ones and were started through the client, so that what
they cost is what sessions cost. Both engines are open at the same time and take turns in bursts, in an order
that changes every round: a neighbour on the machine then slows both alike.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.end_to_end.turns import DexAgentsPeer, open_peer
from benches.measurement import Ratio, speed_ratio
from benches.workloads.turns import TOOLS, build_question, expect_messages

__all__ = ["ACTIVE_SESSIONS", "BesideIdleSessions", "measure_beside_idle_sessions"]

ACTIVE_SESSIONS: Final = 16
_TURNS_A_BURST: Final = 3
_STARTS_AT_ONCE: Final = 64
_WOKEN_SESSIONS: Final = 3
"""Idle sessions that must answer at the end: a session that cannot is no session."""


@dataclass(frozen=True)
class BesideIdleSessions:
    """Seconds of a turn, one value a round.

    Attributes:
        alone: On the engine without idle sessions.
        beside_idle: On the engine with them.
        fill_seconds: How long it took to start them.
        file_bytes: What their engine's file holds when they are idle.
    """

    alone: list[float]
    beside_idle: list[float]
    fill_seconds: float
    file_bytes: int

    def compare(self) -> Ratio:
        """Return turns a second beside idle sessions, against those without."""
        return speed_ratio(self.alone, self.beside_idle)


async def measure_beside_idle_sessions(count: int, rounds: int) -> BesideIdleSessions:
    """Start the idle sessions, then measure bursts of turns with and without them."""
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as name:
        filled, empty = Path(name) / "filled", Path(name) / "empty"
        filled.mkdir()
        empty.mkdir()
        begun = time.perf_counter()
        idle = [f"idle-{number}" for number in range(count)]
        # What is lost with power is not measured here, and started sessions are on the disk when it closes.
        async with open_peer("process", "normal", filled) as peer:
            await _start_sessions(peer, idle)
        fill_seconds = time.perf_counter() - begun
        file_bytes = sum(path.stat().st_size for path in filled.iterdir())
        async with (
            open_peer("process", "full", filled) as beside,
            open_peer("process", "full", empty) as alone,
        ):
            seconds = await _measure_bursts({"beside_idle": beside, "alone": alone}, rounds)
            await _require_awake(beside, idle)
        return BesideIdleSessions(seconds["alone"], seconds["beside_idle"], fill_seconds, file_bytes)


async def _measure_bursts(peers: dict[str, DexAgentsPeer], rounds: int) -> dict[str, list[float]]:
    active = [f"active-{number}" for number in range(ACTIVE_SESSIONS)]
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for peer in peers.values():
        await _start_sessions(peer, active)
        await _run_turns(peer, active, 0)
    for number in range(rounds):
        order = list(peers) if number % 2 == 0 else list(reversed(peers))
        for name in order:
            gc.collect()
            begun = time.perf_counter()
            for turn in range(_TURNS_A_BURST):
                await _run_turns(peers[name], active, 1 + number * _TURNS_A_BURST + turn)
            seconds[name].append((time.perf_counter() - begun) / (_TURNS_A_BURST * ACTIVE_SESSIONS))
    turns = 1 + rounds * _TURNS_A_BURST
    for peer in peers.values():
        await _require_turns(peer, active, turns)
        if await peer.count_tool_runs() != turns * ACTIVE_SESSIONS * len(TOOLS):
            raise RuntimeError("a tool was lost or repeated")
    return seconds


async def _start_sessions(peer: DexAgentsPeer, names: Sequence[str]) -> None:
    waiting = iter(enumerate(names, 1))

    async def lane() -> None:
        for number, name in waiting:
            await peer.start_session(name)
            if number % 1_000 == 0:
                print(f"bench_engine: started {number:,} sessions", file=sys.stderr, flush=True)

    await asyncio.gather(*(lane() for _ in range(_STARTS_AT_ONCE)))


async def _run_turns(peer: DexAgentsPeer, names: Iterable[str], turn: int) -> None:
    await asyncio.gather(*(peer.run_turn(name, build_question(turn)) for name in names))


async def _require_turns(peer: DexAgentsPeer, names: Iterable[str], turns: int) -> None:
    for name in names:
        if await peer.read_messages(name) != expect_messages(turns):
            raise RuntimeError(f"session {name!r} does not hold its {turns} turns")


async def _require_awake(peer: DexAgentsPeer, idle: Sequence[str]) -> None:
    woken = idle[:: max(1, len(idle) // _WOKEN_SESSIONS)][:_WOKEN_SESSIONS]
    await _run_turns(peer, woken, 0)
    await _require_turns(peer, woken, 1)
