"""Lines that a person types: the message prompt with its history, and plain questions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dex_agents.cli.terminal import Terminal

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings

__all__ = ["MessagePrompt", "build_message_keys", "open_line_prompt"]


class MessagePrompt:
    """The line where messages are typed; Esc Enter, or a backslash at the end, goes on with another line."""

    def __init__(self, terminal: Terminal, history: Path, on_shown: Callable[[], object]) -> None:
        """Open the history.

        Args:
            terminal: Where the person sits.
            history: What was typed before; made for this user alone.
            on_shown: Called each time the prompt was drawn.
        """
        from prompt_toolkit.history import FileHistory

        # Made here, because what is typed is nobody else's business.
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._session = open_line_prompt(
            terminal, history=FileHistory(str(history)), key_bindings=build_message_keys()
        )

        def report(_application: Application[str]) -> None:
            on_shown()

        self._session.app.after_render += report

    def fail(self, error: BaseException) -> None:
        """End the line that is being typed, if there is one, by an error that `read` raises."""
        if self._session.app.is_running:
            self._session.app.exit(exception=error)

    async def read(self, draft: str = "") -> str | None:
        """Return a message that is not blank; `None` when the person leaves.

        Args:
            draft: What stands in the line already.
        """
        while True:
            try:
                text: str = await self._session.prompt_async("> ", default=draft, handle_sigint=False)
            except KeyboardInterrupt:
                draft = ""
                continue
            except EOFError:
                return None
            draft = ""
            if text.strip():
                return text


def open_line_prompt(terminal: Terminal, **more: Any) -> PromptSession[str]:
    """Return a prompt that writes to stderr.

    Args:
        terminal: Where the person sits.
        more: For `PromptSession`.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import ColorDepth, create_output

    return PromptSession(
        color_depth=None if terminal.has_colours else ColorDepth.DEPTH_1_BIT,
        output=create_output(stdout=sys.stderr),
        enable_history_search=True,
        **more,
    )


def build_message_keys() -> KeyBindings:
    """Return the keys of a line that may go on with another line."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def begin_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def accept(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return keys
