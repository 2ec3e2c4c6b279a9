"""Asking the person at the terminal to approve calls and to answer questions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dex_agents.cli.line_prompt import open_line_prompt
from dex_agents.cli.shown_text import describe_arguments
from dex_agents.cli.terminal import Terminal
from dex_agents.cli.wishes import CancelTurn, LeaveSession
from dex_agents.errors import InvalidInputError
from dex_agents.wire.interrupts import AgentInterrupt, AgentQuestion
from dex_agents.wire.tool_calls import Answer

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from dex_agents.session.client import AgentSessionClient

__all__ = ["PersonAsker", "read_answer"]

_DECISIONS: Final = "[y]es, [n]o, n REASON, or [e]dit"


class PersonAsker:
    """Asks about interrupts; see `Asker`."""

    def __init__(self, client: AgentSessionClient, terminal: Terminal, *, approves_all: bool = False) -> None:
        """Say whom to tell what was decided.

        Args:
            client: Takes decisions and answers.
            terminal: Where the person sits.
            approves_all: Approve every call without asking.
        """
        self._client = client
        self._terminal = terminal
        self._approves_all = approves_all
        self._session: PromptSession[str] | None = None

    def needs_person(self, interrupt: AgentInterrupt) -> bool:
        """See `Asker.needs_person`."""
        return interrupt.kind == "question" or not self._approves_all

    async def ask(self, session_id: str, interrupt: AgentInterrupt) -> None:
        """See `Asker.ask`."""
        if interrupt.kind == "question":
            await self._ask_questions(session_id, interrupt)
        elif self._approves_all:
            await self._client.resolve_interrupt(session_id, interrupt.interrupt_id, "approve")
        else:
            await self._ask_approval(session_id, interrupt)

    async def _ask_approval(self, session_id: str, interrupt: AgentInterrupt) -> None:
        arguments: str | None = None
        while True:
            line = (await self._read(f"Run {interrupt.tool_name}? {_DECISIONS}: ")).strip()
            word, _, rest = line.partition(" ")
            try:
                match word.lower():
                    case "y" | "yes":
                        await self._client.resolve_interrupt(
                            session_id, interrupt.interrupt_id, "approve", arguments=arguments
                        )
                        return
                    case "n" | "no":
                        await self._client.resolve_interrupt(
                            session_id, interrupt.interrupt_id, "reject", reason=rest.strip() or None
                        )
                        return
                    case "e" | "edit":
                        present = arguments or interrupt.effective_arguments or interrupt.arguments
                        arguments = await self._edit(present)
                        self._terminal.say("It would run with:", "quiet")
                        self._terminal.say(describe_arguments(arguments))
                    case _:
                        self._terminal.say(f"Please type one of: {_DECISIONS}.", "quiet")
            except InvalidInputError as error:
                self._terminal.say(f"Not accepted: {error}", "bad")

    async def _edit(self, arguments: str) -> str:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            line = describe_arguments(arguments, indent=None)
            return (await self._read("Arguments: ", default=line)).strip()
        with _draft(describe_arguments(arguments)) as draft:
            try:
                process = await asyncio.create_subprocess_exec(*shlex.split(editor), str(draft))
            except (OSError, ValueError) as error:
                raise InvalidInputError("EDITOR", f"{editor!r} cannot be run: {error}") from None
            if await process.wait():
                raise InvalidInputError("EDITOR", f"it ended with status {process.returncode}")
            return draft.read_text(encoding="utf-8", errors="replace").strip()

    async def _ask_questions(self, session_id: str, interrupt: AgentInterrupt) -> None:
        while True:
            answers: dict[str, Answer] = {}
            for question in interrupt.questions:
                answers[question.id] = await self._ask_question(question)
            try:
                await self._client.answer_question(session_id, interrupt.interrupt_id, answers)
                return
            except InvalidInputError as error:
                self._terminal.say(f"Not accepted: {error}", "bad")

    async def _ask_question(self, question: AgentQuestion) -> Answer:
        self._terminal.say(f"? {question.question}", "heading")
        for number, option in enumerate(question.options, 1):
            about = f" - {option.description}" if option.description else ""
            self._terminal.say(f"  {number}. {option.label}{about}")
        if question.options:
            many = "numbers, with commas between them," if question.multiple else "a number"
            self._terminal.say(f"  ({many} or your own words)", "quiet")
        while True:
            answer = read_answer(question, await self._read("Answer: "))
            if answer is not None:
                return answer

    async def _read(self, prompt: str, *, default: str = "") -> str:
        if self._session is None:
            self._session = open_line_prompt(self._terminal)
        try:
            return str(await self._session.prompt_async(prompt, default=default, handle_sigint=False))
        except KeyboardInterrupt:
            raise CancelTurn from None
        except EOFError:
            raise LeaveSession from None


def read_answer(question: AgentQuestion, line: str) -> Answer | None:
    """Return what a typed line answers: options by number or words; `None` for nothing."""
    parts = [part.strip() for part in line.split(",")] if question.multiple else [line.strip()]
    labels = [_read_option(question, part) for part in parts if part]
    if not labels:
        return None
    return tuple(labels) if question.multiple else labels[0]


def _read_option(question: AgentQuestion, text: str) -> str:
    if text.isdecimal() and 1 <= int(text) <= len(question.options):
        return question.options[int(text) - 1].label
    matches = [one.label for one in question.options if one.label.casefold() == text.casefold()]
    return matches[0] if matches else text


@contextlib.contextmanager
def _draft(text: str) -> Generator[Path]:
    descriptor, name = tempfile.mkstemp(prefix="arguments-", suffix=".json")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        yield path
    finally:
        path.unlink(missing_ok=True)
