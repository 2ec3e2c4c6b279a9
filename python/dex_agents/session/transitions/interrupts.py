"""Interrupts: what a call waits on, how it is shown, and what its end leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, assert_never

import msgspec

from dex_agents import texts
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import InvalidInputError
from dex_agents.limits import MAX_ANSWER_BYTES
from dex_agents.session.transitions.tool_call_moves import move_tool_call
from dex_agents.session.transitions.tool_calls import (
    finish_tool_call,
    release_tool_call,
    skip_tool_call,
    stop_waiting,
)
from dex_agents.wire.interrupts import AgentInterrupt, AgentQuestion, InterruptKind
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.tool_calls import AgentToolCall, Answer, ToolCallStatus

__all__ = [
    "INTERRUPT_KINDS",
    "InterruptEnd",
    "build_interrupt",
    "end_approval",
    "end_question",
    "end_wait",
    "interrupt_id",
    "interrupt_tool_call_id",
    "open_interrupt_id",
    "require_answers",
]

INTERRUPT_KINDS: Final[Mapping[ToolCallStatus, InterruptKind]] = {
    "waiting_for_approval": "approval",
    "waiting_for_answer": "question",
    "waiting_for_time": "wait",
    "polling": "task",
}
"""The statuses in which a call waits, and what for: while it has one of them, it has one open interrupt."""


@dataclass(frozen=True)
class InterruptEnd:
    """What the end of an interrupt leads to.

    Attributes:
        tool_call: The record as it becomes.
        then: `run` the tool, `poll` its task, `wait` for the earlier write, or nothing: the call is `final`.
    """

    tool_call: AgentToolCall
    then: Literal["run", "poll", "wait", "final"]


def interrupt_id(kind: InterruptKind, tool_call_id: str, asked_round: int = 1) -> str:
    """Return the ID of what a call waits on; a tool that asks again gets another one each time."""
    return f"{kind}:{tool_call_id}" if asked_round <= 1 else f"{kind}.{asked_round}:{tool_call_id}"


def interrupt_tool_call_id(identifier: str) -> str:
    """Return the call that an interrupt is about; an ID of another form names no call of a session."""
    return identifier.partition(":")[2] or identifier


def open_interrupt_id(call: AgentToolCall) -> str | None:
    """Return the ID of what a call waits on now, or `None`."""
    kind = INTERRUPT_KINDS.get(call.status)
    if kind is None:
        return None
    # A task that asked a person and goes on is waited on anew.
    rounds = {"question": call.input_rounds, "task": call.input_rounds + 1}
    return interrupt_id(kind, call.tool_call_id, rounds.get(kind, 1))


def build_interrupt(
    call: AgentToolCall,
    now: datetime,
    *,
    questions: tuple[AgentQuestion, ...] = (),
    deadline: timedelta | None = None,
    until: datetime | None = None,
    reason: str | None = None,
) -> AgentInterrupt:
    """Return what a waiting call shows.

    Args:
        call: Its record, in a status that waits.
        now: The time of the commit.
        questions: For `waiting_for_answer`.
        deadline: How long a person has.
        until: For `waiting_for_time`: when the wait is over.
        reason: For `waiting_for_time`: why the model waits.
    """
    kind = INTERRUPT_KINDS[call.status]
    return AgentInterrupt(
        interrupt_id=open_interrupt_id(call) or "",
        kind=kind,
        turn_id=call.turn_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        effect=call.effect,
        arguments=call.arguments,
        opened_at=now,
        effective_arguments=call.effective_arguments,
        questions=questions,
        deadline=now + deadline if deadline is not None and kind in ("approval", "question") else None,
        until=until,
        reason=reason,
    )


def end_approval(
    call: AgentToolCall, decision: ToolDecision | None, *, follows_write: bool, now: datetime
) -> InterruptEnd:
    """End the wait for an approval.

    Args:
        call: The record as committed.
        decision: What ended it; `None` when nobody decided in time.
        follows_write: Whether the call waits for an earlier ordered write.
        now: The time of the commit.
    """
    if decision is None:
        text = texts.APPROVAL_DEADLINE_PASSED
        return InterruptEnd(finish_tool_call(call, "expire", now, error=text), "final")
    if decision.steered:
        return InterruptEnd(finish_tool_call(call, "steer", now, error=texts.TOOL_CALL_STEERED), "final")
    approval = decision.approval
    if approval is None:
        return InterruptEnd(skip_tool_call(call, decision.failed_write_id or "", now), "final")
    decided = msgspec.structs.replace(call, approval=approval)
    match approval.decision:
        case "reject":
            text = texts.tool_call_rejected(approval.reason)
            return InterruptEnd(finish_tool_call(decided, "reject", now, error=text), "final")
        case "approve":
            if decision.effective_arguments is not None:
                decided = msgspec.structs.replace(decided, effective_arguments=decision.effective_arguments)
            if follows_write:
                return InterruptEnd(move_tool_call(decided, "approve_ordered"), "wait")
            return InterruptEnd(release_tool_call(decided), "run")
        case _:
            assert_never(approval.decision)


def end_question(
    call: AgentToolCall,
    questions: Sequence[AgentQuestion],
    decision: ToolDecision | None,
    *,
    asked_by_session: bool,
    now: datetime,
) -> InterruptEnd:
    """End the wait for answers.

    Args:
        call: The record as committed.
        questions: What was asked.
        decision: What ended it; `None` when nobody answered in time.
        asked_by_session: Whether `ask_user` asked: then the answers are the call's result.
        now: The time of the commit.
    """
    if decision is not None and decision.answers is None:
        return InterruptEnd(stop_waiting(call, texts.TOOL_CALL_STEERED, "steer", now), "final")
    answers: dict[str, Answer] = {one.id: texts.QUESTION_DEADLINE_PASSED for one in questions}
    if decision is not None and decision.answers is not None:
        answers = decision.answers
    if asked_by_session:
        spelled = encode_json_text({name: _plain(answer) for name, answer in answers.items()})
        return InterruptEnd(finish_tool_call(call, "answer", now, output=spelled), "final")
    merged = {**call.input_answers, **answers}
    if call.task_reference is not None:
        return InterruptEnd(move_tool_call(call, "go_on_polling", input_answers=merged), "poll")
    return InterruptEnd(move_tool_call(call, "go_on", input_answers=merged), "run")


def end_wait(call: AgentToolCall, decision: ToolDecision | None, now: datetime) -> AgentToolCall:
    """End a `durable_wait`: the time has come, or the user wanted something else."""
    if decision is not None:
        return finish_tool_call(call, "steer", now, error=texts.WAIT_ENDED_BY_USER)
    return finish_tool_call(call, "time_over", now, output=texts.WAIT_IS_OVER)


def require_answers(
    questions: Sequence[AgentQuestion], answers: Mapping[str, str | Sequence[str]]
) -> dict[str, Answer]:
    """Return answers as they are stored: one for each question, and no other.

    Raises:
        InvalidInputError: An answer is missing, blank, or to a question that was not asked; several answers
            where one is allowed; too many bytes.
    """
    asked = {question.id: question for question in questions}
    for name in answers:
        if name not in asked:
            raise InvalidInputError(
                "answers", f"no question has the ID {name!r}; the questions are {_list(asked)}"
            )
    checked: dict[str, Answer] = {}
    for name, question in asked.items():
        if name not in answers:
            raise InvalidInputError("answers", f"the question {name!r} has no answer")
        checked[name] = _require_answer(question, answers[name])
    size = sum(len(str(answer).encode("utf-8", "replace")) for answer in checked.values())
    if size > MAX_ANSWER_BYTES:
        raise InvalidInputError("answers", f"have {size} bytes, the limit is {MAX_ANSWER_BYTES}")
    return checked


def _require_answer(question: AgentQuestion, answer: Any) -> Answer:
    given: list[Any] = [answer] if isinstance(answer, str) else list(answer)
    if not given:
        raise InvalidInputError("answers", f"the question {question.id!r} has no answer")
    for one in given:
        if not isinstance(one, str) or not one.strip():
            raise InvalidInputError("answers", f"{question.id!r}: an answer must be text that is not blank")
    healed = tuple(replace_lone_surrogates(str(one)) for one in given)
    if question.multiple and not isinstance(answer, str):
        return healed
    if len(healed) > 1:
        raise InvalidInputError("answers", f"the question {question.id!r} takes one answer")
    return "".join(healed)


def _plain(answer: Answer) -> str | list[str]:
    return answer if isinstance(answer, str) else list(answer)


def _list(names: Mapping[str, AgentQuestion]) -> str:
    return ", ".join(repr(name) for name in names)
