"""Plays one round: drives its sessions, kills on time, and finds what a crash must not do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dex_agents import AgentSessionClient, AgentSnapshot, SessionError
from dex_agents.engine import check_database
from dex_agents.testing import WorkerProcess, poll_until
from tests.crash.agent import (
    COMPACTS,
    ONCE_ONLY_TOOLS,
    create_flow,
    gate_at,
    invocation_log,
    read_requests,
)
from tests.crash.engine.faults import FaultyEngine
from tests.crash.killer import Killer
from tests.crash.round_plan import Countable, Kill, RoundPlan, SessionPlan
from tests.crash.round_report import RoundReport
from tests.crash.session_driver import SessionDriver
from tests.crash.verdict import find_invalid_requests, find_repeated_writes

__all__ = ["play_round"]

_BOUND: Final = 240.0
"""Seconds for the sessions of a round, kills and restarts included; a busy machine takes a minute."""


async def play_round(plan: RoundPlan, folder: Path, earlier: Sequence[AgentSnapshot]) -> RoundReport:
    """Play a round on the database of a folder.

    Args:
        plan: What to do.
        folder: Holds the database and the logs; earlier rounds may have used it.
        earlier: Sessions of those rounds, as they were left: they must look the same at the end.
    """
    started = asyncio.get_running_loop().time()
    flow = create_flow(str(folder), COMPACTS)
    gates = tuple(kill.place for kill in plan.kills if kill.victim == "a worker at a gate")
    for gate in gates:
        gate_at(folder, gate).close()
    async with contextlib.AsyncExitStack() as processes:
        engine = await processes.enter_async_context(FaultyEngine(folder / "engine.db", upkeep="often"))
        workers = [
            WorkerProcess(
                "tests.crash.agent:create_flow",
                server_address=engine.server_address,
                arguments=(str(folder), COMPACTS, *gates),
            )
            for _ in range(plan.workers)
        ]
        await asyncio.gather(*(processes.enter_async_context(worker) for worker in workers))
        sessions = await processes.enter_async_context(
            AgentSessionClient.connect(flow, server_address=engine.server_address)
        )
        report = await _Round(plan, folder, engine, workers, sessions).play(earlier)
        problems = report.findings.other_problems
        problems += [
            f"a Worker ended by itself:\n{worker.log}" for worker in workers if not worker.is_running
        ]
        if not engine.is_running:
            problems.append(f"the engine ended by itself:\n{engine.log}")
    problems += check_database(folder / "engine.db").problems
    report.seconds = asyncio.get_running_loop().time() - started
    return report


class _Round:
    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        engine: FaultyEngine,
        workers: Sequence[WorkerProcess],
        sessions: AgentSessionClient,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._engine = engine
        self._workers = workers
        self._log = invocation_log(folder)
        self._runs_before = self._log.count()
        self._requests_before = len(read_requests(folder))
        self._is_driven = False
        self._arrivals_before = {
            kill.place: len(gate_at(folder, kill.place).arrivals)
            for kill in plan.kills
            if kill.victim == "a worker at a gate"
        }
        self._killer = Killer(engine, workers)
        self._report = RoundReport(kills=self._killer.counts)
        self._driver = SessionDriver(sessions, self._report.findings, bound=_BOUND)

    async def play(self, earlier: Sequence[AgentSnapshot]) -> RoundReport:
        """Drive and kill side by side, then look."""
        findings = self._report.findings
        killing = asyncio.create_task(self._kill_on_time())
        try:
            driven = await asyncio.gather(
                *(self._drive(one) for one in self._plan.sessions), return_exceptions=True
            )
            self._is_driven = True
            (killed,) = await asyncio.gather(killing, return_exceptions=True)
        finally:
            killing.cancel()
        if isinstance(killed, BaseException):
            findings.other_problems.append(f"a kill or the start after it failed: {killed!r}")
        for session, outcome in zip(self._plan.sessions, driven, strict=True):
            if isinstance(outcome, BaseException):
                findings.stuck_sessions.append(f"{session.session_id}: {outcome!r}")
            else:
                await self._check_session(session)
        self._check_the_outside()
        for before in earlier:
            after = await self._driver.read_snapshot(before.session_id)
            if (after.messages, after.tool_calls) != (before.messages, before.tool_calls):
                findings.other_problems.append(f"{before.session_id} of an earlier round has changed")
        self._report.answers = self._driver.answers
        return self._report

    async def _drive(self, plan: SessionPlan) -> None:
        async with asyncio.timeout(_BOUND):
            await self._driver.start(plan)
            await self._driver.drive(plan)

    async def _kill_on_time(self) -> None:
        for kill in self._plan.kills:
            if kill.victim != "a worker at a gate":
                # It may never come to so many: then the kill meets sessions that are idle.
                await poll_until(
                    lambda kill=kill: self._is_driven or self._count(kill.moment.of) >= kill.moment.count,
                    timeout=_BOUND,
                )
                await asyncio.sleep(kill.moment.then_seconds)
            await self._kill(kill)

    async def _kill(self, kill: Kill) -> None:
        match kill.victim:
            case "a worker at a gate":
                gate = gate_at(self._folder, kill.place)
                seen = self._arrivals_before[kill.place]
                await self._killer.kill_worker_at(kill.place, gate, seen, lambda: self._is_driven)
            case "the engine in a commit":
                await self._killer.kill_engine_at(kill.place, kill.number, lambda: self._is_driven)
            case "one worker":
                await self._killer.kill(self._workers[0])
            case "every worker":
                await self._killer.kill(*self._workers)
            case "the engine":
                await self._killer.kill(self._engine)
            case "everything":
                await self._killer.kill(self._engine, *self._workers)

    def _count(self, countable: Countable) -> int:
        match countable:
            case "tool runs":
                return self._log.count() - self._runs_before
            case "answers":
                return self._driver.answers
            case "acknowledged messages":
                return self._driver.acknowledged_messages

    async def _check_session(self, plan: SessionPlan) -> None:
        report, session_id = self._report, plan.session_id
        try:
            silence = await self._driver.find_silence(plan, f"{session_id}-check")
        except SessionError as error:
            silence = f"{session_id}: {error!r} at one message more"
        if silence is not None:
            report.findings.stuck_sessions.append(silence)
        after = await self._driver.judge(session_id, self._log.read())
        report.summaries += 0 if after.context_summary is None else after.context_summary.revision
        report.settled.append(after)

    def _check_the_outside(self) -> None:
        findings = self._report.findings
        runs = self._log.read()
        known = find_repeated_writes(runs[: self._runs_before], ONCE_ONLY_TOOLS)
        findings.repeated_writes += (
            one for one in find_repeated_writes(runs, ONCE_ONLY_TOOLS) if one not in known
        )
        requests = read_requests(self._folder)[self._requests_before :]
        findings.invalid_requests += find_invalid_requests(requests)
