"""Plain terminal output for the examples: colours where they are wanted, questions where somebody sits."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from typing import Final, Literal

__all__ = ["Style", "Terminal"]

Style = Literal["plain", "heading", "user", "agent", "tool", "good", "bad", "quiet"]

_CODES: Final[dict[Style, str]] = {
    "plain": "",
    "heading": "1",
    "user": "1;36",
    "agent": "",
    "tool": "33",
    "good": "32",
    "bad": "1;31",
    "quiet": "2",
}


class Terminal:
    """Writes to stdout and reads from stdin.

    Attributes:
        is_interactive: Whether a person reads and can answer: stdin and stdout are terminals.
        is_terminal: Whether stdout is a terminal, so that a line can be drawn again.
    """

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal without Unicode shows a question mark instead of ending the program.
            sys.stdout.reconfigure(errors="replace")
        self.is_terminal = sys.stdout.isatty()
        self.is_interactive = self.is_terminal and sys.stdin.isatty()
        colours_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._has_colours = self.is_terminal and colours_wanted
        self._in_line = False

    def line(self, text: str = "", style: Style = "plain") -> None:
        """Write whole lines."""
        self.end_line()
        print(self._styled(text, style), flush=True)

    def piece(self, text: str, style: Style = "plain") -> None:
        """Write a part of a line, as it arrives."""
        if text:
            print(self._styled(text, style), end="", flush=True)
            self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if self._in_line:
            print(flush=True)
            self._in_line = False

    def redraw(self, text: str) -> None:
        """Write a line over the one before it; call only when `is_terminal`."""
        print(f"\r\x1b[2K{text}", end="", flush=True)
        self._in_line = True

    async def ask(self, prompt: str) -> str | None:
        """Return what the person types, `None` when they end the input; call only when `is_interactive`."""
        self.end_line()
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()

        def settle(text: str | None) -> None:
            if not typed.done():
                typed.set_result(text)

        def read() -> None:
            try:
                text: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                text = None
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, text)

        # A daemon thread: one that waits for input must not keep the program from ending.
        threading.Thread(target=read, daemon=True).start()
        text = await typed
        # The end of the input is typed without a new line.
        self._in_line = text is None
        return text

    def _styled(self, text: str, style: Style) -> str:
        code = _CODES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colours and code and text else text
