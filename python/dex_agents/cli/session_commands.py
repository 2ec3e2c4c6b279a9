"""Commands about sessions that other terminals talk to: look at them, and decide what they wait on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from dex_agents.cli.answer_stream import open_answer_stream
from dex_agents.cli.event_view import EventView
from dex_agents.cli.exit_status import DONE, NOTHING_CHANGED
from dex_agents.cli.opened_agent import OpenedAgent
from dex_agents.cli.session_list import ListedSession
from dex_agents.cli.shown_text import cut_lines, describe_arguments, spell_out_controls
from dex_agents.cli.terminal import Terminal
from dex_agents.errors import InvalidInputError
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.rpc_values import SettledAs
from dex_agents.wire.tool_calls import Answer, ApprovalDecision

__all__ = [
    "answer_questions",
    "cancel_turn",
    "decide_interrupt",
    "list_sessions",
    "read_answers",
    "settle_outcome",
    "show_session",
    "steer_turn",
]

_KINDS: Final = {
    "approval": "approval of",
    "question": "an answer to",
    "wait": "the time of",
    "task": "the task of",
}


async def list_sessions(agent: OpenedAgent, terminal: Terminal, *, waiting: bool, as_json: bool) -> int:
    """List sessions, newest first, with what each waits on."""
    count = 0
    async for listed in agent.sessions.list_sessions():
        if waiting and not listed.progress.waits_on_person:
            continue
        count += 1
        if as_json:
            terminal.put(json.dumps(_session_fields(listed), ensure_ascii=False))
        else:
            terminal.put(_session_line(listed))
            for interrupt in listed.progress.interrupts:
                terminal.put(f"    waits on {_interrupt_line(interrupt)}")
    if not count:
        terminal.say("No session waits." if waiting else "There is no session yet.", "quiet")
    return DONE


async def show_session(agent: OpenedAgent, terminal: Terminal, session_id: str, *, as_json: bool) -> int:
    """Show all that a session holds."""
    snapshot = await agent.client.get_agent_snapshot(session_id)
    if as_json:
        terminal.put(msgspec.json.encode(snapshot).decode())
        return DONE
    view = EventView(terminal, open_answer_stream(terminal))
    view.show_transcript(snapshot)
    if snapshot.plan is not None:
        view.show_plan(snapshot.plan)
    usage = snapshot.usage
    terminal.say(
        f"{session_id}: {snapshot.status}, {snapshot.turn_count} turns, {usage.model_calls} model calls, "
        f"{usage.input_tokens} + {usage.output_tokens} tokens",
        "quiet",
    )
    for interrupt in snapshot.interrupts:
        terminal.say(f"waits on {_interrupt_line(interrupt)}", "tool")
        for question in interrupt.questions:
            terminal.say(f"  {question.id}: {question.question}")
    return DONE


async def decide_interrupt(
    agent: OpenedAgent,
    terminal: Terminal,
    session_id: str,
    decision: ApprovalDecision,
    *,
    interrupt_id: str | None,
    reason: str | None = None,
    arguments: str | None = None,
) -> int:
    """Approve or reject one call.

    Raises:
        InvalidInputError: It is not said which of several, or the arguments do not fit.
    """
    interrupt = await _find_interrupt(agent, terminal, session_id, "approval", interrupt_id)
    if interrupt is None:
        return NOTHING_CHANGED
    took_effect = await agent.client.resolve_interrupt(
        session_id, interrupt.interrupt_id, decision, reason=reason, arguments=arguments
    )
    shown = cut_lines(
        describe_arguments(arguments or interrupt.effective_arguments or interrupt.arguments, indent=None), 1
    )
    what = f"{interrupt.tool_name} {shown}"
    return _tell(terminal, took_effect, f"{'Approved' if decision == 'approve' else 'Rejected'}: {what}")


async def answer_questions(
    agent: OpenedAgent,
    terminal: Terminal,
    session_id: str,
    answers: Sequence[str],
    *,
    interrupt_id: str | None,
) -> int:
    """Answer what a session asks.

    Raises:
        InvalidInputError: An answer is missing or to no question, or it is not said which of several
            interrupts is meant.
    """
    interrupt = await _find_interrupt(agent, terminal, session_id, "question", interrupt_id)
    if interrupt is None:
        return NOTHING_CHANGED
    given = read_answers(interrupt, answers)
    took_effect = await agent.client.answer_question(session_id, interrupt.interrupt_id, given)
    return _tell(terminal, took_effect, "Answered.")


def read_answers(interrupt: AgentInterrupt, answers: Sequence[str]) -> Mapping[str, Answer]:
    """Return answers by question from `ID=TEXT` arguments; a text alone answers the only question.

    Raises:
        InvalidInputError: An argument names no question, or one that takes one answer is answered twice.
    """
    questions = {question.id: question for question in interrupt.questions}
    given: dict[str, list[str]] = {}
    for argument in answers:
        name, equals, text = argument.partition("=")
        if not equals or name not in questions:
            if len(questions) != 1:
                raise InvalidInputError(
                    "answer", f"{argument!r}: expected ID=TEXT with one of the IDs {', '.join(questions)}"
                )
            name, text = next(iter(questions)), argument
        given.setdefault(name, []).append(text)
    for name, texts in given.items():
        if len(texts) > 1 and not questions[name].multiple:
            raise InvalidInputError("answer", f"the question {name!r} takes one answer")
    return {name: tuple(texts) if questions[name].multiple else texts[0] for name, texts in given.items()}


async def steer_turn(agent: OpenedAgent, terminal: Terminal, session_id: str, message: str) -> int:
    """Send a message that joins the running turn."""
    took_effect = await agent.client.steer_user_message(session_id, message)
    return _tell(terminal, took_effect, "Sent.")


async def cancel_turn(agent: OpenedAgent, terminal: Terminal, session_id: str) -> int:
    """Cancel the running turn."""
    took_effect = await agent.client.cancel_turn(session_id)
    return _tell(terminal, took_effect, "Cancelled.")


async def settle_outcome(
    agent: OpenedAgent,
    terminal: Terminal,
    session_id: str,
    tool_call_id: str,
    *,
    outcome: SettledAs,
    output: str,
) -> int:
    """Say what became of a call whose outcome is unknown."""
    took_effect = await agent.client.settle_tool_outcome(session_id, tool_call_id, outcome, output)
    return _tell(terminal, took_effect, "Settled.")


async def _find_interrupt(
    agent: OpenedAgent,
    terminal: Terminal,
    session_id: str,
    kind: Literal["approval", "question"],
    interrupt_id: str | None,
) -> AgentInterrupt | None:
    progress = await agent.client.get_progress(session_id)
    found = [
        one
        for one in progress.interrupts
        if one.kind == kind and interrupt_id in (None, one.interrupt_id, one.tool_call_id)
    ]
    if not found:
        terminal.say(f"The session {session_id} waits on no such {kind}.", "quiet")
        return None
    if len(found) > 1:
        which = "; ".join(f"{one.interrupt_id} ({one.tool_name})" for one in found)
        raise InvalidInputError("interrupt", f"say which one with --interrupt: {which}")
    return found[0]


def _tell(terminal: Terminal, took_effect: bool, done: str) -> int:
    if took_effect:
        terminal.say(done, "good")
        return DONE
    terminal.say("Nothing changed: somebody did it before, or there was nothing to do.", "quiet")
    return NOTHING_CHANGED


def _session_line(listed: ListedSession) -> str:
    progress = listed.progress
    began = _local(listed.started_at)
    state = "waiting" if progress.waits_on_person else progress.status
    ended = f", last {progress.last_turn_outcome}" if progress.last_turn_outcome else ""
    return f"{listed.session_id}  {began}  {state}, {progress.turn_count} turns{ended}"


def _session_fields(listed: ListedSession) -> dict[str, Any]:
    return {
        "session_id": listed.session_id,
        "started_at": listed.started_at.isoformat(),
        **msgspec.to_builtins(listed.progress),
    }


def _interrupt_line(interrupt: AgentInterrupt) -> str:
    if interrupt.kind == "question":
        asked = " / ".join(question.question for question in interrupt.questions)
        return f"an answer: {spell_out_controls(cut_lines(asked, 1, 200))} [{interrupt.interrupt_id}]"
    shown = cut_lines(
        describe_arguments(interrupt.effective_arguments or interrupt.arguments, indent=None), 1, 200
    )
    return f"{_KINDS[interrupt.kind]} {interrupt.tool_name} {shown} [{interrupt.interrupt_id}]"


def _local(moment: datetime) -> str:
    with contextlib.suppress(OSError, OverflowError):
        moment = moment.astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")
