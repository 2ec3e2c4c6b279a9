"""`dex-agents chat` and `dex-agents run`: talking to an agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dex_agents.cli.agent_files import DEFAULT_AGENT, AgentFiles
from dex_agents.cli.config import DEMO_MODEL, AgentConfig, find_key_variable, find_model_name_problem
from dex_agents.cli.exit_status import CANCELLED, DONE, FAILED, WAITS
from dex_agents.cli.shown_text import describe_image
from dex_agents.cli.task_endings import end_tasks
from dex_agents.cli.terminal import Terminal
from dex_agents.cli.wishes import LeaveSession
from dex_agents.errors import InvalidInputError, SessionClosedError

if TYPE_CHECKING:
    from dex_agents.cli.message_images import MessageImages
    from dex_agents.cli.opened_agent import OpenedAgent
    from dex_agents.cli.turn_follower import FollowedTurn
    from dex_agents.wire.images import AgentImageReference
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
IMAGE_COMMAND: Final = "/image"


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
    terminal.say("Ctrl-C cancels a turn, Ctrl-D leaves, Esc Enter begins a line.", "quiet")
    status = DONE
    async with talk.opening() as begin_opening:
        prompt = MessagePrompt(terminal, files.history, on_shown=begin_opening)
        talk.report_failure_to(prompt.fail)
        with contextlib.suppress(LeaveSession):
            if options.session_id is not None:
                status = await talk.resume()
            draft = ""
            while (text := await prompt.read(draft)) is not None:
                try:
                    status = await talk.take_line(text, status)
                    draft = ""
                except LineRefusedError as refusal:
                    # Nothing that was typed is lost: it stands in the next line.
                    terminal.say(f"Not sent: {refusal}", "bad")
                    draft = text
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
        await talk.add_images(options.images)
        with contextlib.suppress(LeaveSession):
            status = await talk.send(message)
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
                    status = await talk.send(line.rstrip("\n"))
                if status == WAITS:
                    break
    talk.say_how_to_resume()
    return status


class LineRefusedError(InvalidInputError):
    """A line that was typed was not accepted; the person may change it."""


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

    async def add_images(self, paths: Sequence[str | Path]) -> None:
        """Add images to the next message, and show of which type and size they are.

        Raises:
            InvalidInputError: A file cannot be read, is no image or too large, or there are too many.
        """
        if paths:
            first = self._images.count + 1
            self._show_images(await self._images.add(paths), first=first)

    async def take_line(self, line: str, status: int) -> int:
        """Obey a line that was typed at the prompt: a command about images, or a message.

        Args:
            line: As it was typed.
            status: The exit status so far.

        Returns:
            The exit status as it becomes.

        Raises:
            LineRefusedError: Nothing was done.
        """
        command, _, rest = line.strip().partition(" ")
        try:
            if command == IMAGE_COMMAND:
                await self._take_image_command(rest)
                return status
            message, dropped = await self._images.build_message(line)
        except InvalidInputError as error:
            raise LineRefusedError(error.field, error.problem) from error
        self._show_images(dropped, first=len(message.images) - len(dropped) + 1)
        return await self.send(message)

    async def _take_image_command(self, rest: str) -> None:
        try:
            paths = shlex.split(rest)
        except ValueError as error:
            raise InvalidInputError("image", f"{rest}: {error}") from None
        if paths:
            await self.add_images(paths)
        elif self._images.count:
            self._images.forget()
            self._terminal.say("The next message has no images.", "quiet")
        else:
            self._terminal.say(f"{IMAGE_COMMAND} PATH adds an image to the next message.", "quiet")

    def _show_images(self, images: Sequence[AgentImageReference], *, first: int) -> None:
        for number, image in enumerate(images, first):
            self._terminal.say(f"  {describe_image(number, image)}", "quiet")

    @cached_property
    def _images(self) -> MessageImages:
        # Needed by the first line that is sent, not by the first prompt.
        from dex_agents.cli.message_images import MessageImages
        from dex_agents.media.local_directory import LocalDirectoryMediaStore

        return MessageImages(LocalDirectoryMediaStore(self._files.images))

    async def send(self, message: str | AgentUserMessage) -> int:
        """Send a message and follow the session until it is idle; return the exit status.

        Args:
            message: With its images; a text gets those that were added.

        Raises:
            LineRefusedError: It was not accepted.
        """
        self._stop_wish.clear()
        agent = await self._open()
        if isinstance(message, str) and self._images.count:
            message, _ = await self._images.build_message(message)
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
        self._images.forget()
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
