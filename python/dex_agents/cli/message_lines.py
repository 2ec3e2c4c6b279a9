"""A line that a person types at a prompt → a message with its images, or a command about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dex_agents.cli.shown_text import describe_image
from dex_agents.cli.terminal import Terminal
from dex_agents.errors import InvalidInputError

if TYPE_CHECKING:
    from dex_agents.cli.message_images import MessageImages
    from dex_agents.wire.images import AgentImageReference
    from dex_agents.wire.messages import AgentUserMessage

__all__ = ["LineRefusedError", "MessageLines", "TypedMessage"]

_IMAGE: Final = "/image"
_QUEUE: Final = "/queue"


class LineRefusedError(InvalidInputError):
    """A line that was typed was not accepted; the person may change it."""


@dataclass(frozen=True)
class TypedMessage:
    """What a line says.

    Attributes:
        message: The message.
        is_queued: Whether it waits for a turn of its own.
    """

    message: AgentUserMessage
    is_queued: bool


class MessageLines:
    """Reads lines; the images that were added are those of the next message that is sent."""

    def __init__(self, terminal: Terminal, image_folder: Path) -> None:
        """Begin without images.

        Args:
            terminal: Shows the images.
            image_folder: Where they are kept.
        """
        self._terminal = terminal
        self._folder = image_folder

    async def read(self, line: str) -> TypedMessage | None:
        """Return the message of a line, or obey a command about images and return `None`.

        Raises:
            LineRefusedError: Nothing was done.
        """
        command, _, rest = line.strip().partition(" ")
        try:
            if command == _IMAGE:
                await self._take_image_command(rest)
                return None
            is_queued = command == _QUEUE
            message, dropped = await self._images.build_message(rest if is_queued else line)
        except InvalidInputError as error:
            raise LineRefusedError(error.field, error.problem) from error
        self._show(dropped, first=len(message.images) - len(dropped) + 1)
        return TypedMessage(message, is_queued)

    async def add_images(self, paths: Sequence[str | Path]) -> None:
        """Add images to the next message, and show of which type and size they are.

        Raises:
            InvalidInputError: A file cannot be read, is no image or too large, or there are too many.
        """
        first = self._images.count + 1
        self._show(await self._images.add(paths), first=first)

    def build_message(self, text: str) -> AgentUserMessage:
        """Return a text as it is, a path in it too, with the images that were added."""
        from dex_agents.wire.messages import AgentUserMessage

        return AgentUserMessage(text, images=self._images.added)

    def forget_images(self) -> None:
        """Begin the next message without images: the one before was sent."""
        self._images.forget()

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
            self._terminal.say(f"{_IMAGE} PATH adds an image to the next message.", "quiet")

    def _show(self, images: Sequence[AgentImageReference], *, first: int) -> None:
        for number, image in enumerate(images, first):
            self._terminal.say(f"  {describe_image(number, image)}", "quiet")

    @cached_property
    def _images(self) -> MessageImages:
        # Needed by the first line that is sent, not by the first prompt.
        from dex_agents.cli.message_images import MessageImages
        from dex_agents.media.local_directory import LocalDirectoryMediaStore

        return MessageImages(LocalDirectoryMediaStore(self._folder))
