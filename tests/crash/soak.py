"""Keeps many sessions busy for long while processes are killed: `python -m tests.crash.soak --minutes 30`.

=================  =========================================================================================
part of the time   what happens
=================  =========================================================================================
first half         about every 5 to 10 s a Worker or the engine is killed, anywhere or around a commit
next sixth         nothing is killed: processes fill their caches
last third         the same load, and memory is measured against turns
after the end      every session must become idle and answer one message more
=================  =========================================================================================

Sessions take turns, some idle for long, and are judged when their time is over; then they are closed and
others begin. The engine removes those that closed, so what it holds does not grow by what was asked of it.
Progress goes to stderr, one line a minute. The last line of stdout is the result. The exit status is 1 when
anything was found; the database and the logs are kept then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from dex_agents import AgentSessionClient
from dex_agents.engine import check_database
from dex_agents.testing import WorkerProcess
from tests.crash.agent import COMPACTS, create_flow
from tests.crash.engine.faults import FaultyEngine
from tests.crash.findings import Findings, count_findings
from tests.crash.killer import Killer
from tests.crash.memory_growth import MemoryGrowth, MemorySample, read_memory_kilobytes
from tests.crash.outside_view import OutsideView
from tests.crash.round_plan import SessionPlan, plan_kill_in_commit, plan_session
from tests.crash.session_driver import SessionDriver

__all__ = ["main"]

_WORKERS: Final = 4
_IDLE_SHARE: Final = 5
"""One session in so many idles for long."""

_LONGEST_PAUSE_SECONDS: Final = 8.0
_MOST_PARTS: Final = 3
"""A part is two messages, steering, and what they bring about."""

_KILL_SECONDS: Final = (5.0, 10.0)
_KILL_IN_COMMIT_SECONDS: Final = 10.0
_RETENTION_SECONDS: Final = 20.0
_STUCK_SECONDS: Final = 120.0
"""So long nothing at all happens in any session before those that are not over count as stuck."""

_BOUND: Final = 24 * 3600.0
_SAMPLES: Final = 240
_REPORT_SECONDS: Final = 60.0


class Soak:
    """One run.

    Args:
        folder: Holds the database and the logs.
        minutes: Without what sessions need to end.
        sessions: How many are alive at a time.
        seed: For what they do and what is killed.
    """

    def __init__(self, folder: Path, minutes: float, sessions: int, seed: int) -> None:
        self._folder = folder
        self._seconds = minutes * 60
        self._sessions = sessions
        self._seed = seed
        self._engine = FaultyEngine(
            folder / "engine.db", options=("--retention-days", str(_RETENTION_SECONDS / 86_400))
        )
        self._outside = OutsideView(folder)
        self._is_over = asyncio.Event()
        self._workers: list[WorkerProcess] = []
        self._judged = 0
        self._growth = MemoryGrowth(sessions, 0)
        self.findings = Findings()
        self._driver: SessionDriver
        self._killer: Killer

    async def run(self) -> str:
        """Run it, and return the line of results."""
        problems = self.findings.other_problems
        async with contextlib.AsyncExitStack() as processes:
            engine = await processes.enter_async_context(self._engine)
            self._workers = [
                WorkerProcess(
                    "tests.crash.soak_worker:create_flow",
                    server_address=engine.server_address,
                    arguments=(str(self._folder),),
                )
                for _ in range(_WORKERS)
            ]
            await asyncio.gather(*(processes.enter_async_context(worker) for worker in self._workers))
            flow = create_flow(str(self._folder), COMPACTS)
            client = await processes.enter_async_context(
                AgentSessionClient.connect(flow, server_address=engine.server_address)
            )
            self._driver = SessionDriver(client, self.findings, bound=_BOUND)
            self._killer = Killer(engine, self._workers)
            await self._keep_busy()
            problems += [
                f"a process ended by itself:\n{one.log}"
                for one in (engine, *self._workers)
                if not one.is_running
            ]
        for _ in range(2):
            self.findings.invalid_requests += await self._outside.find_invalid_requests()
        self.findings.repeated_writes += self._outside.find_repeated_writes()
        problems += check_database(self._folder / "engine.db").problems
        if (growth := self._growth.find_leak()) is not None:
            problems.append(growth)
        return (
            f"{self._seconds / 60:g} min, {self._sessions} sessions, turns {self._driver.turns}, "
            f"{self._killer.counts}, {count_findings([self.findings])}, {self._growth}"
        )

    async def _keep_busy(self) -> None:
        lives = {asyncio.create_task(self._live(number)): number for number in range(1, self._sessions + 1)}
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report())
            try:
                await self._kill_for(self._seconds / 2)
            except Exception as error:  # noqa: BLE001 - a process that ended by itself, or did not start
                self.findings.other_problems.append(f"a kill or the start after it failed: {error!r}")
            self._growth = MemoryGrowth(self._sessions, self._driver.turns)
            await asyncio.sleep(self._seconds / 6)
            await self._measure_for(self._seconds / 3)
            self._is_over.set()
            await self._wait_for_the_end(lives)
            reporting.cancel()

    async def _live(self, number: int) -> None:
        random = Random(f"{self._seed}/{number}")
        life = 0
        while not self._is_over.is_set():
            life += 1
            plan = plan_session(random, f"s{number}-{life}")
            await self._live_once(random, plan, idles_long=number % _IDLE_SHARE == 0)

    async def _live_once(self, random: Random, plan: SessionPlan, *, idles_long: bool) -> None:
        session_id = plan.session_id
        await self._driver.start(plan)
        for part in range(1, random.randint(1, _MOST_PARTS) + 1):
            await self._driver.drive(plan_session(random, session_id, f"-p{part}"))
            pause = self._seconds * random.uniform(0.1, 0.3) if idles_long else 0.0
            await self._pause(pause + random.uniform(0, _LONGEST_PAUSE_SECONDS))
            if self._is_over.is_set():
                break
        await self._check(plan)
        self._judged += 1
        await self._driver.close(session_id)

    async def _check(self, plan: SessionPlan) -> None:
        number = 0
        while True:
            number += 1
            kills = self._killer.kills
            silence = await self._driver.find_silence(plan, f"{plan.session_id}-check{number}")
            if silence is None:
                break
            # A turn whose three model calls were each killed is allowed to fail.
            if self._killer.kills == kills:
                self.findings.stuck_sessions.append(silence)
                break
        await self._driver.judge(plan.session_id, self._outside.take_runs(plan.session_id))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_over.wait()

    async def _kill_for(self, seconds: float) -> None:
        random = Random(f"{self._seed}/kills")
        loop = asyncio.get_running_loop()
        end, due = loop.time() + seconds, loop.time()
        while (due := max(loop.time(), due + random.uniform(*_KILL_SECONDS))) < end:
            await asyncio.sleep(due - loop.time())
            await self._kill(random)

    async def _kill(self, random: Random) -> None:
        match random.choice(("workers", "workers", "workers", "the engine", "in a commit", "both")):
            case "workers":
                await self._killer.kill(*random.sample(self._workers, random.choice((1, 1, 1, 2, _WORKERS))))
            case "the engine":
                await self._killer.kill(self._engine)
            case "in a commit":
                end = asyncio.get_running_loop().time() + _KILL_IN_COMMIT_SECONDS
                await self._killer.kill_engine_at(
                    *plan_kill_in_commit(random), lambda: asyncio.get_running_loop().time() > end
                )
            case _:
                await self._killer.kill(self._engine, random.choice(self._workers))

    async def _measure_for(self, seconds: float) -> None:
        for _ in range(_SAMPLES):
            await asyncio.sleep(seconds / _SAMPLES)
            try:
                self._growth.add(self._look())
            except OSError:
                # A process ended by itself, which is told at the end.
                return

    def _look(self) -> MemorySample:
        return MemorySample(
            self._driver.turns,
            read_memory_kilobytes(self._engine.pid),
            sum(read_memory_kilobytes(worker.pid) for worker in self._workers),
            (self._folder / "engine.db").stat().st_size // 1024,
        )

    def _memory_now(self) -> str:
        try:
            return str(self._look())
        except OSError:
            return "a process is being started"

    async def _wait_for_the_end(self, lives: dict[asyncio.Task[None], int]) -> None:
        pending = set(lives)
        while pending:
            before = self._events
            done, pending = await asyncio.wait(pending, timeout=_STUCK_SECONDS)
            for life in done:
                if (error := life.exception()) is not None:
                    self.findings.stuck_sessions.append(f"session {lives[life]}: {error!r}")
            if self._events == before and not done:
                self.findings.stuck_sessions += (f"session {lives[life]} does not end" for life in pending)
                for life in pending:
                    life.cancel()
                break

    @property
    def _events(self) -> int:
        return self._driver.turns + self._judged + self._driver.answers + self._driver.acknowledged_messages

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            self.findings.invalid_requests += await self._outside.find_invalid_requests()
            print(
                f"soak: {(loop.time() - begun) / 60:.0f} min, turns {self._driver.turns}, "
                f"sessions judged {self._judged}, {self._killer.counts}, "
                f"{count_findings([self.findings])}, {self._memory_now()}",
                file=sys.stderr,
                flush=True,
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--sessions", type=int, default=200, help="how many at a time (default 200)")
    parser.add_argument("--seed", type=int, help="what is done and killed as in an earlier run")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"soak: seed {seed}", file=sys.stderr, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        findings, line = asyncio.run(_run(folder, options.minutes, options.sessions, seed))
    except BaseException as error:
        print(f"soak: stopped before the end; kept: {folder}", file=sys.stderr)
        if isinstance(error, asyncio.CancelledError):
            return 1
        raise
    if findings.problems:
        print("\n".join(f"  {one}" for one in findings.problems), file=sys.stderr)
        print(f"  kept: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    print(f"soak: {line}")
    return int(bool(findings.problems))


async def _run(folder: Path, minutes: float, sessions: int, seed: int) -> tuple[Findings, str]:
    running = asyncio.current_task()
    assert running is not None
    # The processes that were started must not outlive this one.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    soak = Soak(folder, minutes, sessions, seed)
    line = await soak.run()
    return soak.findings, line


if __name__ == "__main__":
    sys.exit(main())
