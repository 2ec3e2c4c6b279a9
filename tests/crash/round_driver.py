"""Plays one round: drives its sessions, kills on time, and finds what a crash must not do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from dex_agents import (
    AgentInterrupt,
    AgentSessionClient,
    AgentSnapshot,
    AgentToolCall,
    AgentUserMessage,
    SessionAlreadyExistsError,
    SessionError,
    SessionUnavailableError,
)
from dex_agents.testing import EngineProcess, WorkerProcess, poll_until
from dex_agents.wire.tool_calls import ApprovalDecision
from tests.crash.agent import (
    COMPACTS,
    ONCE_ONLY_TOOLS,
    QUESTION_ID,
    build_answer,
    build_message,
    create_flow,
    invocation_log,
    read_requests,
)
from tests.crash.round_plan import Countable, Kill, PlannedMessage, RoundPlan, SessionPlan
from tests.crash.round_report import RoundReport
from tests.crash.verdict import (
    find_invalid_requests,
    find_lost_messages,
    find_repeated_writes,
    find_unpaired_calls,
    find_untrue_records,
)

__all__ = ["play_round"]

_BOUND: Final = 60.0
"""Seconds for the sessions of a round, kills and restarts included."""

_LOOK_SECONDS: Final = 0.05

ResultT = TypeVar("ResultT")


async def play_round(plan: RoundPlan, folder: Path, earlier: Sequence[AgentSnapshot]) -> RoundReport:
    """Play a round on the database of a folder.

    Args:
        plan: What to do.
        folder: Holds the database and the logs; earlier rounds may have used it.
        earlier: Sessions of those rounds, as they were left: they must look the same at the end.
    """
    started = asyncio.get_running_loop().time()
    flow = create_flow(str(folder), COMPACTS)
    async with contextlib.AsyncExitStack() as processes:
        engine = await processes.enter_async_context(EngineProcess(folder / "engine.db"))
        workers = [
            WorkerProcess(
                "tests.crash.agent:create_flow",
                server_address=engine.server_address,
                arguments=(str(folder), COMPACTS),
            )
            for _ in range(plan.workers)
        ]
        await asyncio.gather(*(processes.enter_async_context(worker) for worker in workers))
        sessions = await processes.enter_async_context(
            AgentSessionClient.connect(flow, server_address=engine.server_address)
        )
        report = await _Round(plan, folder, engine, workers, sessions).play(earlier)
        report.other_problems += [
            f"a Worker ended by itself:\n{worker.log}" for worker in workers if not worker.is_running
        ]
        if not engine.is_running:
            report.other_problems.append(f"the engine ended by itself:\n{engine.log}")
    report.seconds = asyncio.get_running_loop().time() - started
    return report


class _Round:
    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        engine: EngineProcess,
        workers: Sequence[WorkerProcess],
        sessions: AgentSessionClient,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._engine = engine
        self._workers = workers
        self._sessions = sessions
        self._log = invocation_log(folder)
        self._runs_before = self._log.count()
        self._requests_before = len(read_requests(folder))
        self._acknowledged: dict[str, list[str]] = {one.session_id: [] for one in plan.sessions}
        self._decisions: dict[str, list[str]] = {}
        self._given = 0
        self._is_driven = False
        self._report = RoundReport()

    async def play(self, earlier: Sequence[AgentSnapshot]) -> RoundReport:
        """Drive and kill side by side, then look."""
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
            self._report.other_problems.append(f"a process did not start again: {killed}")
        for session, outcome in zip(self._plan.sessions, driven, strict=True):
            if isinstance(outcome, BaseException):
                self._report.stuck_sessions.append(f"{session.session_id}: {outcome!r}")
            else:
                await self._check_session(session)
        self._check_the_outside()
        for before in earlier:
            after = await self._sessions.get_agent_snapshot(before.session_id)
            if (after.messages, after.tool_calls) != (before.messages, before.tool_calls):
                self._report.other_problems.append(f"{before.session_id} of an earlier round has changed")
        return self._report

    async def _drive(self, plan: SessionPlan) -> None:
        is_over = asyncio.Event()
        async with asyncio.timeout(_BOUND), asyncio.TaskGroup() as tasks:
            # A start whose answer was lost has taken effect.
            with contextlib.suppress(SessionAlreadyExistsError):
                await self._until_available(lambda: self._start(plan))
            tasks.create_task(self._answer_questions(plan, is_over))
            steering = [tasks.create_task(self._steer(plan, *one)) for one in plan.steering]
            if plan.sends_at_once:
                await asyncio.gather(*(self._send(plan, message) for message in plan.messages))
            else:
                for message in plan.messages:
                    await self._send(plan, message)
                    await self._wait_for_idle(plan.session_id)
            await asyncio.gather(*steering)
            await self._wait_for_idle(plan.session_id)
            is_over.set()

    async def _start(self, plan: SessionPlan) -> None:
        first: AgentUserMessage | None = None
        if plan.starts_with_message:
            first = AgentUserMessage(build_message("first"), f"{plan.session_id}-first")
        await self._sessions.start_session(plan.session_id, first_message=first)
        if first is not None and first.message_id is not None:
            self._acknowledged[plan.session_id].append(first.message_id)

    async def _steer(self, plan: SessionPlan, after_seconds: float, message: PlannedMessage) -> None:
        await asyncio.sleep(after_seconds)
        await self._send(plan, message, self._sessions.steer_user_message)

    async def _send(
        self,
        plan: SessionPlan,
        message: PlannedMessage,
        send: Callable[[str, AgentUserMessage], Awaitable[bool]] | None = None,
    ) -> None:
        sent = AgentUserMessage(message.text, message.message_id)
        call = send or self._sessions.send_user_message
        took_effect = await asyncio.gather(
            *(self._until_available(lambda: call(plan.session_id, sent)) for _ in range(plan.callers))
        )
        self._acknowledged[plan.session_id].append(message.message_id)
        if took_effect.count(True) != 1:
            self._report.other_problems.append(
                f"{plan.session_id}: sending {message.message_id} took effect {took_effect}"
            )
        if message.is_cancelled:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._until_available(lambda: self._sessions.cancel_turn(plan.session_id))

    async def _wait_for_idle(self, session_id: str) -> None:
        await self._until_available(lambda: self._sessions.wait_for_idle(session_id, timeout=_BOUND))

    async def _answer_questions(self, plan: SessionPlan, is_over: asyncio.Event) -> None:
        random = Random(plan.seed)
        while not is_over.is_set():
            progress = await self._until_available(lambda: self._sessions.get_progress(plan.session_id))
            # Several people answer the same question at once, and do not always agree.
            await asyncio.gather(
                *(
                    self._answer(
                        plan.session_id,
                        one,
                        "reject" if random.random() < plan.rejects else "approve",
                        edits=random.random() < plan.edits,
                    )
                    for one in progress.interrupts
                    if one.waits_on_person
                    for _ in range(plan.callers)
                )
            )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _answer(
        self, session_id: str, interrupt: AgentInterrupt, decision: ApprovalDecision, *, edits: bool
    ) -> None:
        if interrupt.kind == "question":
            await self._answer_question(session_id, interrupt)
            return
        arguments: str | None = None
        if edits and decision == "approve":
            arguments = json.dumps({**json.loads(interrupt.arguments), "seconds": 0.0, "edited": True})
        took_effect = await self._until_available(
            lambda: self._sessions.resolve_interrupt(
                session_id, interrupt.interrupt_id, decision, arguments=arguments
            )
        )
        if took_effect:
            answer = f"{decision}, edited" if arguments else decision
            self._decisions.setdefault(f"{session_id}/{interrupt.interrupt_id}", []).append(answer)
            self._report.answers += 1

    async def _answer_question(self, session_id: str, interrupt: AgentInterrupt) -> None:
        self._given += 1
        answer = f"answer {self._given}"
        took_effect = await self._until_available(
            lambda: self._sessions.answer_question(session_id, interrupt.interrupt_id, {QUESTION_ID: answer})
        )
        if took_effect:
            self._decisions.setdefault(f"{session_id}/{interrupt.interrupt_id}", []).append(answer)
            self._report.answers += 1

    async def _kill_on_time(self) -> None:
        for kill in self._plan.kills:
            # It may never come to so many: then the kill meets sessions that are idle.
            await poll_until(
                lambda kill=kill: self._is_driven or self._count(kill.moment.of) >= kill.moment.count,
                timeout=_BOUND,
            )
            await asyncio.sleep(kill.moment.then_seconds)
            await self._kill_and_restart(kill)

    async def _kill_and_restart(self, kill: Kill) -> None:
        victims: tuple[EngineProcess | WorkerProcess, ...]
        match kill.victim:
            case "one worker":
                victims = (self._workers[0],)
            case "every worker":
                victims = tuple(self._workers)
            case "the engine":
                victims = (self._engine,)
            case "everything":
                victims = (self._engine, *self._workers)
        await asyncio.gather(*(victim.kill() for victim in victims))
        for victim in victims:
            await victim.start()

    def _count(self, countable: Countable) -> int:
        match countable:
            case "tool runs":
                return self._log.count() - self._runs_before
            case "answers":
                return self._report.answers
            case "acknowledged messages":
                return sum(len(sent) for sent in self._acknowledged.values())

    async def _check_session(self, plan: SessionPlan) -> None:
        report, session_id = self._report, plan.session_id
        before = await self._sessions.get_agent_snapshot(session_id)
        try:
            await self._send(plan, PlannedMessage(f"{session_id}-check", build_message("check"), False))
            progress = await self._sessions.wait_for_idle(session_id, timeout=_BOUND)
        except SessionError as error:
            report.stuck_sessions.append(f"{session_id}: {error!r} at one message more")
            return
        after = await self._sessions.get_agent_snapshot(session_id)
        if progress.last_turn_outcome != "completed" or after.messages[-1].text != build_answer("check", 0):
            report.stuck_sessions.append(f"{session_id}: did not answer: {progress}")
        if after.messages[: len(before.messages)] != before.messages:
            report.other_problems.append(f"{session_id}: a stored message has changed")
        report.lost_messages += find_lost_messages(after, self._acknowledged[session_id])
        report.other_problems += find_unpaired_calls(after)
        report.other_problems += find_untrue_records(after, self._log.read())
        report.other_problems += self._find_decisions_not_kept(after)
        report.summaries += 0 if after.context_summary is None else after.context_summary.revision
        report.settled.append(after)

    def _find_decisions_not_kept(self, snapshot: AgentSnapshot) -> list[str]:
        problems: list[str] = []
        for call in snapshot.tool_calls:
            answered = self._decisions.get(f"{snapshot.session_id}/question:{call.tool_call_id}", [])
            read = _answer_that_was_read(call)
            if answered != read and not (call.status == "not_run" and len(answered) == 1):
                problems.append(
                    f"{snapshot.session_id}: {call.tool_call_id} read {read}, was told {answered}"
                )
            counted = self._decisions.get(f"{snapshot.session_id}/approval:{call.tool_call_id}", [])
            recorded: list[str] = []
            if call.approval is not None:
                edited = ", edited" if call.approval.edited else ""
                recorded.append(f"{call.approval.decision}{edited}")
            # A cancelled turn drops a decision that was taken and not yet applied.
            if counted != recorded and not (call.status == "not_run" and len(counted) == 1):
                problems.append(
                    f"{snapshot.session_id}: {call.tool_call_id} was answered {counted}, recorded {recorded}"
                )
        return problems

    def _check_the_outside(self) -> None:
        runs = self._log.read()
        known = find_repeated_writes(runs[: self._runs_before], ONCE_ONLY_TOOLS)
        self._report.repeated_writes += (
            one for one in find_repeated_writes(runs, ONCE_ONLY_TOOLS) if one not in known
        )
        requests = read_requests(self._folder)[self._requests_before :]
        self._report.invalid_requests += find_invalid_requests(requests)

    async def _until_available(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make a call that takes effect once, again and again while nobody answers."""
        while True:
            try:
                return await call()
            except SessionUnavailableError:
                continue


def _answer_that_was_read(call: AgentToolCall) -> list[str]:
    """Return what a person answered as the call knows it, or nothing."""
    answers = dict(call.input_answers)
    if call.tool_name == "ask_user" and call.status == "succeeded":
        answers |= json.loads(call.output or "{}")
    return [str(answer) for answer in answers.values()]
