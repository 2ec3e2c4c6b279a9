"""Kills engines and Workers, starts them again, and counts what was really killed where."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dex_agents.testing import EngineProcess, FileGate, WorkerProcess, poll_until
from dex_agents.testing.processes import ChildProcess
from tests.crash.engine.faults import FaultyEngine

__all__ = ["KillCounts", "Killer"]

_BOUND: Final = 300.0
"""Seconds for a kill to come to its moment; who waits knows when to give up earlier."""


@dataclass
class KillCounts:
    """The processes that were killed.

    Attributes:
        workers: Workers, wherever they were.
        at_gates: Those of them at a gate in their code, by gate.
        engines: Engines, wherever they were.
        in_commits: Those of them at a moment of a commit, by moment.
        not_fired: Kills whose moment did not come: nothing was killed.
    """

    workers: int = 0
    at_gates: Counter[str] = field(default_factory=Counter[str])
    engines: int = 0
    in_commits: Counter[str] = field(default_factory=Counter[str])
    not_fired: int = 0

    def __add__(self, other: KillCounts) -> KillCounts:
        """Return the sum."""
        return KillCounts(
            self.workers + other.workers,
            self.at_gates + other.at_gates,
            self.engines + other.engines,
            self.in_commits + other.in_commits,
            self.not_fired + other.not_fired,
        )

    def __str__(self) -> str:
        """Spell them for a line of results."""
        moments = ", ".join(f"{moment} {count}" for moment, count in sorted(self.in_commits.items()))
        return (
            f"worker kills {self.workers} (at a gate {self.at_gates.total()}), "
            f"engine kills {self.engines} (around a commit {self.in_commits.total()}"
            f"{': ' if moments else ''}{moments}), not fired {self.not_fired}"
        )


class Killer:
    """Ends the processes of one engine with SIGKILL and starts others in their place.

    Attributes:
        counts: What was killed so far.
    """

    def __init__(self, engine: FaultyEngine, workers: Sequence[WorkerProcess]) -> None:
        self._engine = engine
        self._workers = tuple(workers)
        self.counts = KillCounts()

    @property
    def kills(self) -> int:
        """The number of processes killed so far."""
        return self.counts.workers + self.counts.engines

    async def kill(self, *victims: EngineProcess | WorkerProcess) -> None:
        """Kill processes together, whatever they do, and start them again."""
        for victim in victims:
            _require_running(victim)
            if isinstance(victim, EngineProcess):
                self.counts.engines += 1
            else:
                self.counts.workers += 1
        await asyncio.gather(*(victim.kill() for victim in victims))
        # A Worker looks for its engine when it starts.
        for victim in sorted(victims, key=lambda one: one is not self._engine):
            await victim.start()

    async def kill_worker_at(self, name: str, gate: FileGate, seen: int, is_over: Callable[[], bool]) -> None:
        """Kill the Worker that comes to a gate first, open the gate, and start the Worker again.

        Args:
            name: The gate's, to count by.
            gate: Closed.
            seen: Arrivals at it from before.
            is_over: Whether nothing will come to it any more.
        """
        await poll_until(lambda: len(gate.arrivals) > seen or is_over(), timeout=_BOUND, awaited=name)
        arrived = gate.arrivals[seen:]
        victim = next((worker for worker in self._workers if worker.pid in arrived), None)
        if victim is None:
            self.counts.not_fired += 1
            gate.open()
            return
        self.counts.at_gates[name] += 1
        self.counts.workers += 1
        await victim.kill()
        gate.open()
        await victim.start()

    async def kill_engine_at(self, moment: str, number: int, is_over: Callable[[], bool]) -> None:
        """Have the engine killed at a moment of one of its next commits, and start it again.

        Args:
            moment: One of `tests.crash.engine.faults.MOMENTS`.
            number: The first that comes is number 1.
            is_over: Whether it is not worth waiting any longer.
        """
        _require_running(self._engine)
        self._engine.arm(moment, number)
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(self._engine.wait())
            await poll_until(lambda: ending.done() or is_over(), timeout=_BOUND, awaited=moment)
            if not ending.done() and await self._engine.disarm():
                ending.cancel()
                self.counts.not_fired += 1
                return
        if await self._engine.wait() != -signal.SIGKILL:
            raise RuntimeError(f"the engine ended by itself:\n{self._engine.log}")
        self.counts.in_commits[moment] += 1
        self.counts.engines += 1
        await self._engine.start()


def _require_running(process: ChildProcess) -> None:
    """Raise if a process ended by itself: killing it would hide that."""
    if not process.is_running:
        raise RuntimeError(f"a process ended by itself:\n{process.log}")
