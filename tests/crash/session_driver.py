"""Drives sessions as their users would, and knows what each was promised."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final, TypeVar

from dex_agents import (
    AgentInterrupt,
    AgentSessionClient,
    AgentSnapshot,
    AgentToolCall,
    AgentUserMessage,
    SessionAlreadyExistsError,
    SessionTimeoutError,
    SessionUnavailableError,
)
from dex_agents.testing import Invocation
from dex_agents.wire.tool_calls import ApprovalDecision
from tests.crash.agent import QUESTION_ID, build_answer, build_message
from tests.crash.findings import Findings
from tests.crash.round_plan import PlannedMessage, SessionPlan
from tests.crash.verdict import find_lost_messages, find_unpaired_calls, find_untrue_records

__all__ = ["SessionDriver"]

_LOOK_SECONDS: Final = 0.05
_LONGEST_LOOK_SECONDS: Final = 5.0

ResultT = TypeVar("ResultT")


class SessionDriver:
    """Sends, answers, steers and cancels; every call takes effect once, however often nobody answers.

    Attributes:
        answers: Answers to questions that took effect.
        acknowledged_messages: How many messages were acknowledged.
        turns: Turns that were over when their session was seen idle.
    """

    def __init__(self, sessions: AgentSessionClient, findings: Findings, *, bound: float) -> None:
        """Drive nothing yet.

        Args:
            sessions: The client.
            findings: Takes what is found.
            bound: Seconds until a session must be idle.
        """
        self._sessions = sessions
        self._findings = findings
        self._bound = bound
        self._acknowledged: dict[str, list[str]] = {}
        self._decisions: dict[str, dict[str, list[str]]] = {}
        # What was said when nobody told whether it took effect, and was then said again.
        self._doubtful: dict[str, dict[str, list[str]]] = {}
        self._given = 0
        self.answers = 0
        self.acknowledged_messages = 0
        self.turns = 0
        self._turns_of: dict[str, int] = {}

    async def start(self, plan: SessionPlan) -> None:
        """Start the session of a plan."""
        first: AgentUserMessage | None = None
        if plan.starts_with_message:
            first = AgentUserMessage(build_message("first"), f"{plan.session_id}-first")
        # A start whose answer was lost has taken effect.
        with contextlib.suppress(SessionAlreadyExistsError):
            await self._until_available(
                lambda: self._sessions.start_session(plan.session_id, first_message=first)
            )
        self._acknowledged[plan.session_id] = []
        if first is not None:
            self._note_acknowledged(plan.session_id, first)

    async def drive(self, plan: SessionPlan) -> None:
        """Send what is planned, answer what is asked, and return when the session is idle."""
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
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

    async def find_silence(self, plan: SessionPlan, message_id: str) -> str | None:
        """Send one message more to an idle session; return what is wrong unless it answers."""
        session_id = plan.session_id
        before = await self.read_snapshot(session_id)
        await self._send(plan, PlannedMessage(message_id, build_message("check"), is_cancelled=False))
        await self._wait_for_idle(session_id)
        after = await self.read_snapshot(session_id)
        if after.messages[: len(before.messages)] != before.messages:
            self._findings.other_problems.append(f"{session_id}: a stored message has changed")
        if after.last_turn_outcome != "completed" or after.messages[-1].text != build_answer("check", 0):
            return f"{session_id}: did not answer: {after.last_turn_outcome}, {after.last_turn_error}"
        return None

    async def judge(self, session_id: str, invocations: Iterable[Invocation]) -> AgentSnapshot:
        """Find what is not as it must be in a settled session, and return what it looks like.

        Args:
            session_id: Its messages and decisions are forgotten.
            invocations: What tools did; those of other sessions may be missing.
        """
        snapshot = await self.read_snapshot(session_id)
        acknowledged = self._acknowledged.pop(session_id)
        self._turns_of.pop(session_id, None)
        self._findings.lost_messages += find_lost_messages(snapshot, acknowledged)
        self._findings.other_problems += find_unpaired_calls(snapshot)
        self._findings.other_problems += find_untrue_records(snapshot, tuple(invocations))
        self._findings.other_problems += self._find_decisions_not_kept(snapshot)
        return snapshot

    async def read_snapshot(self, session_id: str) -> AgentSnapshot:
        """Return what a session looks like."""
        return await self._until_available(lambda: self._sessions.get_agent_snapshot(session_id))

    async def close(self, session_id: str) -> None:
        """Close a session."""
        await self._until_available(lambda: self._sessions.close_session(session_id, timeout=self._bound))

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
        doubts: list[str] = []
        took_effect = await asyncio.gather(
            *(self._until_available(lambda: call(plan.session_id, sent), doubts) for _ in range(plan.callers))
        )
        self._note_acknowledged(plan.session_id, sent)
        if took_effect.count(True) != 1 and (any(took_effect) or not doubts):
            self._findings.other_problems.append(
                f"{plan.session_id}: sending {message.message_id} took effect {took_effect}"
            )
        if message.is_cancelled:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._until_available(lambda: self._sessions.cancel_turn(plan.session_id))

    async def _wait_for_idle(self, session_id: str) -> None:
        progress = await self._until_available(
            lambda: self._sessions.wait_for_idle(session_id, timeout=self._bound)
        )
        self.turns += max(0, progress.turn_count - self._turns_of.get(session_id, 0))
        self._turns_of[session_id] = max(progress.turn_count, self._turns_of.get(session_id, 0))

    async def _answer_questions(self, plan: SessionPlan, is_over: asyncio.Event) -> None:
        random = Random(plan.seed)
        while not is_over.is_set():
            try:
                progress = await self._until_available(
                    lambda: self._sessions.wait_for_attention(plan.session_id, timeout=_LONGEST_LOOK_SECONDS)
                )
            except SessionTimeoutError:
                continue
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
        await self._note_answer(
            session_id,
            interrupt,
            f"{decision}, edited" if arguments else decision,
            lambda: self._sessions.resolve_interrupt(
                session_id, interrupt.interrupt_id, decision, arguments=arguments
            ),
        )

    async def _answer_question(self, session_id: str, interrupt: AgentInterrupt) -> None:
        self._given += 1
        answer = f"answer {self._given}"
        await self._note_answer(
            session_id,
            interrupt,
            answer,
            lambda: self._sessions.answer_question(session_id, interrupt.interrupt_id, {QUESTION_ID: answer}),
        )

    def _note_acknowledged(self, session_id: str, message: AgentUserMessage) -> None:
        assert message.message_id is not None
        self._acknowledged[session_id].append(message.message_id)
        self.acknowledged_messages += 1

    async def _note_answer(
        self, session_id: str, interrupt: AgentInterrupt, answer: str, give: Callable[[], Awaitable[bool]]
    ) -> None:
        doubtful = self._doubtful.setdefault(session_id, {}).setdefault(interrupt.interrupt_id, [])
        if await self._until_available(give, doubtful, answer):
            self._decisions.setdefault(session_id, {}).setdefault(interrupt.interrupt_id, []).append(answer)
            self.answers += 1

    def _find_decisions_not_kept(self, snapshot: AgentSnapshot) -> list[str]:
        problems: list[str] = []
        decisions = self._decisions.pop(snapshot.session_id, {})
        doubtful = self._doubtful.pop(snapshot.session_id, {})

        def given(interrupt_id: str, found: list[str]) -> list[str]:
            counted = decisions.get(interrupt_id, [])
            if not counted and len(found) == 1 and found[0] in doubtful.get(interrupt_id, []):
                return found
            return counted

        for call in snapshot.tool_calls:
            read = _answer_that_was_read(call)
            answered = given(f"question:{call.tool_call_id}", read)
            if answered != read and not (call.status == "not_run" and len(answered) == 1):
                problems.append(
                    f"{snapshot.session_id}: {call.tool_call_id} read {read}, was told {answered}"
                )
            recorded: list[str] = []
            if call.approval is not None:
                edited = ", edited" if call.approval.edited else ""
                recorded.append(f"{call.approval.decision}{edited}")
            counted = given(f"approval:{call.tool_call_id}", recorded)
            # A cancelled turn drops a decision that was taken and not yet applied.
            if counted != recorded and not (call.status == "not_run" and len(counted) == 1):
                problems.append(
                    f"{snapshot.session_id}: {call.tool_call_id} was answered {counted}, recorded {recorded}"
                )
        return problems

    async def _until_available(
        self, call: Callable[[], Awaitable[ResultT]], doubtful: list[str] | None = None, said: str = ""
    ) -> ResultT:
        """Make a call that takes effect once, again and again while nobody answers.

        Args:
            call: The call. Each time is a request of its own: if one took effect and nobody told, the next is
                told that it was done before.
            doubtful: Takes what was said each time that nobody answered.
            said: See above.
        """
        while True:
            try:
                return await call()
            except SessionUnavailableError:
                if doubtful is not None:
                    doubtful.append(said)


def _answer_that_was_read(call: AgentToolCall) -> list[str]:
    """Return what a person answered as the call knows it, or nothing."""
    answers = dict(call.input_answers)
    if call.tool_name == "ask_user" and call.status == "succeeded":
        answers |= json.loads(call.output or "{}")
    return [str(answer) for answer in answers.values()]
