"""`dex-agents chat` and `dex-agents run`: talking to an agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dex_agents.cli.agent_files import DEFAULT_AGENT, AgentFiles
from dex_agents.cli.config import DEMO_MODEL, AgentConfig, find_key_variable, find_model_name_problem
from dex_agents.cli.exit_status import CANCELLED, DONE, FAILED, WAITS
from dex_agents.cli.message_lines import LineRefusedError, MessageLines
from dex_agents.cli.task_endings import end_tasks
from dex_agents.cli.terminal import Terminal
from dex_agents.cli.wishes import LeaveSession
from dex_agents.errors import InvalidInputError, SessionClosedError

if TYPE_CHECKING:
    from dex_agents.cli.opened_agent import OpenedAgent
    from dex_agents.cli.turn_follower import FollowedTurn
    from dex_agents.cli.typed_lines import TypedLines
    from dex_agents.wire.messages import AgentUserMessage

__all__ = ["ChatOptions", "chat", "run_message"]

_STATUSES: Final[dict[FollowedTurn, int]] = {
    "completed": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "waits": WAITS,
    "closed": FAILED,
}
_RESUMED_TURNS: Final = 3


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How to talk.

    Attributes:
        session_id: Go on with this session; `None` for a new one.
        model: In place of the configured one, from now on in this session.
        folder: Where tools of a new session work.
        plain: Draw and style nothing.
        images: Image files to show with the message of `run_message`.
        yes: Approve every call without asking.
        json: Write events as JSON.
        waits: Wait for somebody else to decide where nobody can be asked here.
    """

    session_id: str | None = None
    model: str | None = None
    folder: Path | None = None
    plain: bool = False
    images: tuple[Path, ...] = ()
    yes: bool = False
    json: bool = False
    waits: bool = False


async def chat(files: AgentFiles, config: AgentConfig, options: ChatOptions) -> int:
    """Talk until the person leaves; return the exit status of the last turn.

    Raises:
        InvalidInputError: An option cannot be used.
        EngineError: The host cannot be started.
        SessionError: The session could not be served.
    """
    terminal = Terminal(plain=options.plain)
    if not terminal.is_interactive:
        return await _chat_with_pipe(files, config, options, terminal)
    from dex_agents.cli.line_prompt import MessagePrompt

    talk = _Talk(files, config, options, terminal)
    terminal.say(f"dex-agents {files.name}: {options.model or config.model}, in {talk.folder}", "heading")
    terminal.say(
        "Ctrl-C cancels a turn, Ctrl-D leaves, Esc Enter begins a line.",
        "quiet",
    )
    status = DONE
    async with talk.opening() as begin_opening:
        prompt = MessagePrompt(terminal, files.history, on_shown=begin_opening)
        talk.take_typing()
        talk.report_failure_to(prompt.fail)
        with contextlib.suppress(LeaveSession):
            if options.session_id is not None:
                status = await talk.resume()
            while (text := talk.take_typed_line() or await prompt.read(talk.take_draft())) is not None:
                status = await talk.take_line(text, status)
    talk.say_how_to_resume()
    return status


async def run_message(files: AgentFiles, config: AgentConfig, options: ChatOptions, message: str) -> int:
    """Send one message, follow its turn and return the exit status by its outcome.

    Raises:
        InvalidInputError: The message or an option cannot be used.
        EngineError: The host cannot be started.
        SessionError: The session could not be served.
    """
    terminal = Terminal(plain=options.plain or options.json)
    talk = _Talk(files, config, options, terminal)
    async with talk.opening():
        status = CANCELLED
        with contextlib.suppress(LeaveSession):
            status = await talk.send_text(message, options.images)
    if options.json:
        return status
    talk.say_how_to_resume()
    return status


async def _chat_with_pipe(
    files: AgentFiles, config: AgentConfig, options: ChatOptions, terminal: Terminal
) -> int:
    talk = _Talk(files, config, options, terminal)
    status = DONE
    async with talk.opening():
        with contextlib.suppress(LeaveSession):
            if options.session_id is not None:
                status = await talk.resume()
            while line := await asyncio.to_thread(sys.stdin.readline):
                if line.strip():
                    status = await talk.send_text(line.rstrip("\n"))
                if status == WAITS:
                    break
    talk.say_how_to_resume()
    return status


class _Talk:
    """One session, from its first message on."""

    def __init__(
        self, files: AgentFiles, config: AgentConfig, options: ChatOptions, terminal: Terminal
    ) -> None:
        if options.model is not None:
            problem = find_model_name_problem(options.model)
            if problem is not None:
                raise InvalidInputError("model", problem)
        self.folder = (options.folder or Path.cwd()).expanduser().resolve()
        if not self.folder.is_dir():
            raise InvalidInputError("folder", f"{self.folder}: there is no such folder")
        self._files = files
        self._config = config
        self._options = options
        self._terminal = terminal
        self._session_id = options.session_id
        self._opened: asyncio.Task[OpenedAgent] | None = None
        self._resources = contextlib.AsyncExitStack()
        self._stop_wish = asyncio.Event()
        self._on_failure: Callable[[BaseException], object] | None = None
        self._follower: Any = None
        self._view: Any = None
        self._lines = MessageLines(terminal, files.images)
        self._typed: TypedLines | None = None
        self._draft = ""

    def take_typing(self) -> None:
        """Take what is typed while a turn is at work."""
        from dex_agents.cli.typed_lines import DrawnTypedLines, PlainTypedLines

        talking = asyncio.current_task()
        self._typed = (
            PlainTypedLines()
            if self._terminal.is_plain
            else DrawnTypedLines(
                self._terminal, self._files.history, lambda: self._take_interrupt_key(talking)
            )
        )

    @asynccontextmanager
    async def opening(self) -> AsyncGenerator[Callable[[], None]]:
        """Keep the agent open for the length of the block, from the first need or call on.

        The call begins in the background: the first prompt does not wait for it.
        """
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as resources:
            self._resources = resources
            loop.add_signal_handler(signal.SIGINT, self._take_interrupt_key, asyncio.current_task())
            try:
                yield self._begin_opening
            finally:
                loop.remove_signal_handler(signal.SIGINT)
                if self._opened is not None:
                    await end_tasks(self._opened)

    def report_failure_to(self, report: Callable[[BaseException], object]) -> None:
        """Report it when the agent cannot be opened, also while the person types."""
        self._on_failure = report

    def _take_interrupt_key(self, talking: asyncio.Task[Any] | None) -> None:
        # A wish that nobody has obeyed since the last time: there is no turn that could be cancelled.
        if self._stop_wish.is_set() and talking is not None:
            talking.cancel()
        self._stop_wish.set()

    def _begin_opening(self) -> None:
        if self._opened is None:
            self._opened = asyncio.create_task(self._open_in_background())
            self._opened.add_done_callback(self._tell_failure)

    def _tell_failure(self, opened: asyncio.Task[OpenedAgent]) -> None:
        # Whoever types does not wait for the agent yet, and need not finish the message first.
        error = None if opened.cancelled() else opened.exception()
        if error is not None and self._on_failure is not None:
            self._on_failure(error)

    async def _open_in_background(self) -> OpenedAgent:
        # The imports take a part of a second, in which the person may type.
        await asyncio.to_thread(_import_parts)
        from dex_agents.cli.agent import build_model
        from dex_agents.cli.opened_agent import open_agent

        agent = await self._resources.enter_async_context(open_agent(self._files, self._config))
        # Better told before the first turn than by its failure.
        model = self._options.model or (self._config.model if self._session_id is None else DEMO_MODEL)
        variable = find_key_variable(model)
        if variable is not None and variable not in agent.keys:
            raise InvalidInputError("model", f"{model} needs {variable} in the environment")
        await asyncio.to_thread(build_model, model)
        return agent

    async def take_line(self, line: str, status: int) -> int:
        """Obey a line that was typed at the prompt: a command about images, or a message.

        Args:
            line: As it was typed.
            status: The exit status so far.

        Returns:
            The exit status as it becomes.
        """
        try:
            typed = await self._lines.read(line)
            return status if typed is None else await self.send(typed.message)
        except LineRefusedError as refusal:
            # Nothing that was typed is lost: it stands in the next line.
            self._terminal.say(f"Not sent: {refusal}", "bad")
            self._draft = line
            return status

    def take_typed_line(self) -> str | None:
        """Return a line that was typed too late for the turn before, or `None`.

        Raises:
            LeaveSession: The person left instead.
        """
        return self._typed.take() if self._typed is not None and self._typed.has_line.is_set() else None

    def take_draft(self) -> str:
        """Return what is to stand in the next line already."""
        draft, self._draft = self._draft, ""
        typed = "" if self._typed is None else self._typed.take_draft()
        return f"{draft}{typed}"

    async def _send_typed(self, line: str) -> bool:
        """Send a line that was typed while a turn is at work; return whether it was a message."""
        agent = await self._open()
        session_id = self._session_id or ""
        try:
            typed = await self._lines.read(line)
            if typed is None:
                return False
            client = agent.client
            send = client.send_user_message if typed.is_queued else client.steer_user_message
            await send(session_id, typed.message)
        except InvalidInputError as error:
            self._terminal.say(f"Not sent: {error}", "bad")
            if self._typed is not None:
                self._typed.give_back(line)
            return False
        self._lines.forget_images()
        self._terminal.say(f"> {typed.message.text}", "heading")
        how = "waits for its own turn" if typed.is_queued else "joins the turn"
        self._terminal.say(f"  ({how})", "quiet")
        return True

    async def send_text(self, text: str, images: Sequence[Path] = ()) -> int:
        """Send a text as it is, with images; see `send`.

        Raises:
            InvalidInputError: An image cannot be used, or the message was not accepted.
        """
        if images:
            await self._lines.add_images(images)
        return await self.send(self._lines.build_message(text))

    async def send(self, message: AgentUserMessage) -> int:
        """Send a message and follow the session until it is idle; return the exit status.

        Args:
            message: With its images.

        Raises:
            LineRefusedError: It was not accepted.
        """
        self._stop_wish.clear()
        agent = await self._open()
        snapshot = None
        if self._session_id is not None:
            snapshot = await agent.client.get_agent_snapshot(self._session_id)
        try:
            if self._session_id is None:
                session_id = secrets.token_hex(4)
                settings = {"folder": str(self.folder), "model": self._options.model or self._config.model}
                await agent.client.start_session(session_id, first_message=message, session_settings=settings)
                self._session_id = session_id
            else:
                await agent.client.send_user_message(self._session_id, message)
        except InvalidInputError as error:
            raise LineRefusedError(error.field, error.problem) from error
        self._lines.forget_images()
        return await self._follow(self._session_id, snapshot)

    async def resume(self) -> int:
        """Show what the session holds, and follow it if it is busy; return the exit status."""
        agent = await self._open()
        session_id = self._session_id or ""
        snapshot = await agent.client.get_agent_snapshot(session_id)
        if snapshot.status == "closed":
            raise SessionClosedError(session_id)
        settings = dict(snapshot.session_settings)
        if self._options.model is not None and settings.get("model") != self._options.model:
            settings["model"] = self._options.model
            await agent.client.update_session_settings(session_id, settings)
        self._terminal.say(f"Session {session_id}, in {settings.get('folder')}", "heading")
        if snapshot.turn_count > _RESUMED_TURNS:
            self._terminal.say(f"(the last {_RESUMED_TURNS} of {snapshot.turn_count} turns)", "quiet")
        if not self._options.json:
            self._view.show_transcript(snapshot, turns=_RESUMED_TURNS)
        if snapshot.status == "running" or snapshot.queued_messages:
            return await self._follow(session_id, snapshot)
        return DONE

    def say_how_to_resume(self) -> None:
        """Tell how to go on with the session later."""
        if self._session_id is not None:
            self._terminal.say(f"To go on: dex-agents chat{self._agent_option} --resume {self._session_id}")

    @property
    def _agent_option(self) -> str:
        if self._files != AgentFiles.locate(self._files.name):
            return f" --config {self._files.config}"
        return "" if self._files.name == DEFAULT_AGENT else f" --agent {self._files.name}"

    async def _open(self) -> OpenedAgent:
        self._begin_opening()
        assert self._opened is not None
        agent = await self._opened
        if self._follower is None:
            from dex_agents.cli.answer_stream import open_answer_stream
            from dex_agents.cli.event_view import EventView
            from dex_agents.cli.turn_follower import TurnFollower, encode_event

            if agent.note is not None:
                self._terminal.say(f"Note: {agent.note}.", "bad")
            self._view = EventView(self._terminal, open_answer_stream(self._terminal))
            asker: Any = None
            if self._options.yes or (self._terminal.is_interactive and not self._options.json):
                from dex_agents.cli.person_asker import PersonAsker

                asker = PersonAsker(agent.client, self._terminal, approves_all=self._options.yes)
            self._follower = TurnFollower(
                agent.client,
                self._terminal,
                self._view,
                asker=asker,
                stop_wish=self._stop_wish,
                waits_for_others=self._options.waits,
                agent_option=self._agent_option,
                on_event=(lambda event: self._terminal.put(encode_event(event)))
                if self._options.json
                else None,
                typed=self._typed,
                send_typed=self._send_typed,
            )
        return agent

    async def _follow(self, session_id: str, snapshot: Any) -> int:
        outcome: FollowedTurn = await self._follower.follow(session_id, snapshot)
        if self._options.json:
            agent = await self._open()
            after = await agent.client.get_agent_snapshot(session_id)
            text = next((one.text for one in reversed(after.messages) if one.role == "assistant"), None)
            result = {
                "type": "result",
                "session_id": session_id,
                "outcome": outcome,
                "text": text,
                "error": after.last_turn_error,
                "interrupts": [_describe(interrupt) for interrupt in after.interrupts],
            }
            self._terminal.put(json.dumps(result, ensure_ascii=False))
        return _STATUSES[outcome]


def _describe(interrupt: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(interrupt)


def _import_parts() -> None:
    for module in ("event_view", "host_link", "opened_agent", "turn_follower"):
        import_module(f"dex_agents.cli.{module}")
