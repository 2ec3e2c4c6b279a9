"""The text of an answer as it arrives, on stdout: Markdown on a terminal, the very text elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from dex_agents.cli.shown_text import spell_out_controls
from dex_agents.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.markdown import Markdown

__all__ = ["AnswerStream", "MarkdownAnswer", "PlainAnswer", "find_finished_blocks", "open_answer_stream"]

_REFRESH_SECONDS: Final = 0.06
_LINES_BELOW: Final = 4
"""Of the screen, for the line in which the person types meanwhile."""


class AnswerStream(Protocol):
    """Shows one answer after the other."""

    def add(self, text: str) -> None:
        """Show more text."""
        ...

    def end(self) -> None:
        """Finish the present answer, if there is one; whatever is written next begins on a new line."""
        ...


def open_answer_stream(terminal: Terminal) -> AnswerStream:
    """Return the stream that fits the terminal."""
    return MarkdownAnswer(terminal) if terminal.draws_answers else PlainAnswer()


class PlainAnswer:
    """Writes the text as it is; what a terminal would obey is spelled out on one."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._in_line = False

    def add(self, text: str) -> None:
        """See `AnswerStream.add`."""
        if text:
            print(spell_out_controls(text) if self._is_terminal else text, end="", flush=True)
            self._in_line = not text.endswith("\n")

    def end(self) -> None:
        """See `AnswerStream.end`."""
        if self._in_line:
            print(flush=True)
            self._in_line = False


class MarkdownAnswer:
    """Draws Markdown: finished blocks for good, the block that is being written again and again."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._console = terminal.data_console
        self._text = ""
        self._live: Live | None = None
        self._drawn_at = 0.0

    def add(self, text: str) -> None:
        """See `AnswerStream.add`."""
        from rich.live import Live

        self._text += spell_out_controls(text)
        finished = find_finished_blocks(self._text)
        if finished:
            self._stop()
            self._terminal.draw_data(_as_markdown(self._text[:finished]))
            self._text = self._text[finished:]
        typing = self._terminal.typing
        if self._live is None and typing is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        if finished or time.monotonic() - self._drawn_at >= _REFRESH_SECONDS:
            unfinished = _LastLines(_as_markdown(self._text))
            if self._live is not None:
                self._live.update(unfinished, refresh=True)
            elif typing is not None:
                typing.preview(self._render(unfinished))
            self._drawn_at = time.monotonic()

    def end(self) -> None:
        """See `AnswerStream.end`."""
        self._stop()
        if self._text.strip():
            self._terminal.draw_data(_as_markdown(self._text))
        self._text = ""

    def _render(self, unfinished: _LastLines) -> str:
        with self._console.capture() as captured:
            self._console.print(unfinished)
        return captured.get()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._terminal.typing is not None:
            self._terminal.typing.preview("")


def find_finished_blocks(text: str) -> int:
    """Return how much of a Markdown text will look the same whatever follows.

    That is everything before the last empty line that is in no fenced block and is followed by a line that
    begins at the margin: an indented one, or the next item of a list, belongs to what is before it.
    """
    finished = position = 0
    fence = ""
    after_empty = in_list = False
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        is_whole = line.endswith("\n")
        if not fence and after_empty and stripped and not line[0].isspace():
            is_item = _is_list_item(stripped)
            # Half a line may still become the next item.
            if not (in_list and (is_item or not is_whole)):
                finished, in_list = position, is_item
        if not fence and stripped and _is_list_item(stripped) and not line[0].isspace():
            in_list = True
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                fence = ""
        elif stripped.startswith(("```", "~~~")):
            mark = stripped[0]
            fence = mark * (len(stripped) - len(stripped.lstrip(mark)))
        after_empty = not stripped and is_whole
        position += len(line)
    return finished


def _is_list_item(line: str) -> bool:
    head = line.split(" ", 1)[0]
    return head in ("-", "*", "+") or (head[:-1].isdigit() and head[-1:] in (".", ")"))


def _as_markdown(text: str) -> Markdown:
    from rich.markdown import Markdown

    # A link is written out: its text may say one address and lead to another.
    return Markdown(text, hyperlinks=False, code_theme="ansi_dark")


class _LastLines:
    """As much of a block as fits the screen, counted from its end."""

    def __init__(self, inner: Markdown) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        lines = console.render_lines(self._inner, options, pad=False)
        for index, line in enumerate(lines[-max(1, console.height - _LINES_BELOW) :]):
            if index:
                yield Segment.line()
            yield from line
