"""What a person types while a turn is at work: kept in order, and never taken for the answer to a question.

A line that ends with Enter is taken by whoever follows the turn. What is still being typed when the line goes
away, for a question or because the turn is over, is the draft of the next line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dex_agents.cli.task_endings import end_tasks
from dex_agents.cli.wishes import LeaveSession

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.buffer import Buffer

    from dex_agents.cli.terminal import Terminal

__all__ = ["DrawnTypedLines", "PlainTypedLines", "TypedLines"]

_MARK: Final = "~ "
_HINT: Final = "Enter joins, /queue TEXT waits"


class TypedLines(ABC):
    """Takes lines between `start` and `stop`.

    Attributes:
        has_line: Set while there is something to `take`.
        is_quiet: Set while nothing stands in the line.
    """

    def __init__(self) -> None:
        """Begin with nothing typed."""
        self.has_line: Final = asyncio.Event()
        self.is_quiet: Final = asyncio.Event()
        self.is_quiet.set()
        self._lines: deque[str] = deque()
        self._draft = ""
        self._has_left = False

    def take(self) -> str:
        """Return the oldest line; call only when `has_line` is set.

        Raises:
            LeaveSession: The person leaves.
        """
        if not self._lines:
            raise LeaveSession
        line = self._lines.popleft()
        if not self._lines and not self._has_left:
            self.has_line.clear()
        return line

    def take_draft(self) -> str:
        """Return what was being typed when the line went away, once."""
        draft, self._draft = self._draft, ""
        return draft

    def give_back(self, line: str) -> None:
        """Put back a line that was not accepted, before what is being typed."""
        self._draft = f"{line} {self._draft}".rstrip() if self._draft else line

    @abstractmethod
    def start(self) -> None:
        """Take lines from now on."""

    @abstractmethod
    async def stop(self) -> None:
        """Take no more lines, and leave nothing for whoever reads the terminal next."""

    def _keep(self, text: str) -> None:
        """Keep lines, and what follows the last of them as the draft."""
        *lines, rest = text.replace("\r", "\n").split("\n")
        for number, line in enumerate(lines):
            whole = self.take_draft() + line if number == 0 else line
            if whole.strip():
                self._lines.append(whole)
                self.has_line.set()
        self._draft += rest

    def _leave(self) -> None:
        self._has_left = True
        self.has_line.set()


class DrawnTypedLines(TypedLines):
    """A line below everything that is written meanwhile."""

    def __init__(self, terminal: Terminal, history: Path, on_interrupt: Callable[[], object]) -> None:
        """Prepare the line.

        Args:
            terminal: Where the person sits; what it writes goes above the line.
            history: What was typed before.
            on_interrupt: Called when Ctrl-C is typed.
        """
        super().__init__()
        from prompt_toolkit.formatted_text import ANSI, merge_formatted_text
        from prompt_toolkit.history import FileHistory

        from dex_agents.cli.line_prompt import build_message_keys, open_line_prompt

        keys = build_message_keys()

        @keys.add("c-c", eager=True)
        def interrupt(_event: object) -> None:
            on_interrupt()

        self._terminal = terminal
        self._preview = ""
        self._reading: asyncio.Task[None] | None = None
        self._session = open_line_prompt(
            terminal,
            message=lambda: merge_formatted_text([ANSI(self._preview), _MARK]),
            history=FileHistory(str(history)),
            key_bindings=keys,
            placeholder=ANSI(f"\x1b[2m{_HINT}\x1b[0m"),
            erase_when_done=True,
        )
        self._session.default_buffer.on_text_changed += self._note_text

    def start(self) -> None:
        """See `TypedLines.start`."""
        if self._reading is None and not self._has_left:
            self._terminal.typing = self
            self._reading = asyncio.create_task(self._read())

    async def stop(self) -> None:
        """See `TypedLines.stop`."""
        if self._reading is None:
            return
        from prompt_toolkit.input.typeahead import get_typeahead

        if self._session.app.is_running:
            self._draft = self._session.default_buffer.text
        await end_tasks(self._reading)
        self._reading = None
        self._terminal.typing = None
        self._preview = ""
        self.is_quiet.set()
        self._keep("".join(press.data for press in get_typeahead(self._session.app.input)))
        self._keep(_read_pending())

    def give_back(self, line: str) -> None:
        """See `TypedLines.give_back`."""
        if self._session.app.is_running:
            self._session.default_buffer.insert_text(line)
        else:
            super().give_back(line)

    def write_above(self, write: Callable[[], object]) -> None:
        """Let something whole lines be written where the line is drawn, and draw it below them."""
        app = self._session.app
        if app.is_running:
            app.renderer.erase(leave_alternate_screen=False)
        write()
        app.invalidate()

    def preview(self, text: str) -> None:
        """Show text above the line that will be written for good later.

        Args:
            text: With styles; `""` for none.
        """
        self._preview = text
        self._session.app.invalidate()

    async def _read(self) -> None:
        while True:
            try:
                line = await self._session.prompt_async(default=self.take_draft(), handle_sigint=False)
            except EOFError:
                self._leave()
                return
            self.is_quiet.set()
            if line.strip():
                self._lines.append(line)
                self.has_line.set()

    def _note_text(self, _buffer: Buffer) -> None:
        if self._session.default_buffer.text and self._session.app.is_running:
            self.is_quiet.clear()
        else:
            self.is_quiet.set()


class PlainTypedLines(TypedLines):
    """Lines as the terminal itself edits and shows them."""

    def __init__(self) -> None:
        """Prepare to read stdin."""
        super().__init__()
        self._is_reading = False

    def start(self) -> None:
        """See `TypedLines.start`."""
        if not self._is_reading and not self._has_left:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)
            self._is_reading = True

    async def stop(self) -> None:
        """See `TypedLines.stop`."""
        if self._is_reading:
            self._end_reading()
            self._keep(_read_pending())

    def _read(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65_536)
        except OSError:
            data = b""
        if data:
            self._keep(data.decode(errors="replace"))
        else:
            self._end_reading()
            self._leave()

    def _end_reading(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._is_reading = False


def _read_pending() -> str:
    """Return what was typed and nobody has read, a line without its end included."""
    descriptor = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        return ""
    at_once = [*before]
    at_once[3] &= ~termios.ICANON
    at_once[6] = [*before[6]]
    at_once[6][termios.VMIN] = at_once[6][termios.VTIME] = 0
    termios.tcsetattr(descriptor, termios.TCSANOW, at_once)
    try:
        return os.read(descriptor, 65_536).decode(errors="replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
