"""What a command writes: data on stdout, talk on stderr, with styles where a person looks."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Literal

from dex_agents.cli.shown_text import spell_out_controls

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from dex_agents.cli.typed_lines import DrawnTypedLines

__all__ = ["Style", "Terminal"]

Style = Literal["plain", "quiet", "good", "bad", "tool", "heading"]

_RICH_STYLES: Final[dict[Style, str]] = {
    "plain": "",
    "quiet": "dim",
    "good": "green",
    "bad": "bold red",
    "tool": "yellow",
    "heading": "bold",
}


class Terminal:
    """The two streams of a command.

    Attributes:
        is_interactive: Whether a person can be asked: stdin and stderr are terminals.
        is_plain: Whether nothing is styled or drawn: by wish, on a dumb terminal, or into a pipe.
        has_colours: Whether styles may be colours.
        typing: A line that is drawn below everything that is written, or `None`.
    """

    def __init__(self, *, plain: bool = False, data_console: Console | None = None) -> None:
        """Look at the streams.

        Args:
            plain: Draw and style nothing, even on a terminal.
            data_console: Draws data in place of stdout.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal without Unicode shows a question mark instead of ending the program.
                stream.reconfigure(errors="replace")
        is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        self.is_interactive: Final = sys.stdin.isatty() and sys.stderr.isatty()
        self.is_plain: Final = plain or is_dumb or not sys.stderr.isatty()
        self.draws_answers: Final = not (plain or is_dumb) and sys.stdout.isatty()
        self.has_colours: Final = not self.is_plain and not os.environ.get("NO_COLOR")
        self.typing: DrawnTypedLines | None = None
        self._talk_console: Console | None = None
        self._data_console = data_console

    @property
    def talk_console(self) -> Console:
        """Draws on stderr; use only where `is_plain` is false."""
        if self._talk_console is None:
            self._talk_console = _open_console(stderr=True)
        return self._talk_console

    @property
    def data_console(self) -> Console:
        """Draws on stdout; use only where `draws_answers` is true."""
        if self._data_console is None:
            self._data_console = _open_console(stderr=False)
        return self._data_console

    def say(self, text: str = "", style: Style = "plain") -> None:
        """Write a line of talk."""
        safe = spell_out_controls(text)
        if self.is_plain:
            print(safe, file=sys.stderr, flush=True)
        else:
            self._write(
                lambda: self.talk_console.print(
                    safe, style=_RICH_STYLES[style] or None, markup=False, highlight=False
                )
            )

    def draw(self, renderable: Any) -> None:
        """Draw talk; use only where `is_plain` is false."""
        self._write(lambda: self.talk_console.print(renderable))

    def draw_data(self, renderable: Any) -> None:
        """Draw data; use only where `draws_answers` is true."""
        self._write(lambda: self.data_console.print(renderable))

    @staticmethod
    def put(line: str) -> None:
        """Write a line of data as it is."""
        print(line, flush=True)

    def _write(self, write: Callable[[], object]) -> None:
        if self.typing is None:
            write()
        else:
            self.typing.write_above(write)


def _open_console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)
