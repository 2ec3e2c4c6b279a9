"""Images that a person adds to a message: by path, or as a terminal writes a file that is dropped on it."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from dex_agents.errors import ImageValidationError, InvalidInputError, MediaStoreError
from dex_agents.limits import MAX_IMAGE_BYTES, MAX_IMAGES_PER_MESSAGE
from dex_agents.wire.messages import AgentUserMessage

if TYPE_CHECKING:
    from dex_agents.media.contract import MediaStore
    from dex_agents.wire.images import AgentImageReference

__all__ = ["MessageImages", "find_dropped_images"]

_SUFFIXES: Final = frozenset({".gif", ".jpeg", ".jpg", ".png", ".webp"})
_DROPPED: Final = re.compile(
    r"""(?<!\S)(?:'(?:file://|~?/)[^'\n]+'|"(?:file://|~?/)[^"\n]+"|(?:file://|~?/)(?:\\.|[^\s\\])+)"""
)
"""Whole paths only: a relative one is a word that the model may read as it likes."""


class MessageImages:
    """The images of the message that is being typed."""

    def __init__(self, store: MediaStore) -> None:
        """Begin without images.

        Args:
            store: Takes their bytes.
        """
        self._store = store
        self._images: list[AgentImageReference] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._images)

    @property
    def added(self) -> tuple[AgentImageReference, ...]:
        """All of them, in order."""
        return tuple(self._images)

    async def add(self, paths: Sequence[str | Path]) -> tuple[AgentImageReference, ...]:
        """Add the images of some files, all of them or none, and return them.

        Raises:
            InvalidInputError: One cannot be read, is no image or too large, or there are too many.
        """
        count = len(self._images) + len(paths)
        if count > MAX_IMAGES_PER_MESSAGE:
            raise InvalidInputError(
                "images", f"a message would have {count}, the limit is {MAX_IMAGES_PER_MESSAGE}"
            )
        added = tuple([await self._store_file(_as_path(path)) for path in paths])
        self._images.extend(added)
        return added

    def forget(self) -> None:
        """Begin again without images."""
        self._images.clear()

    async def build_message(self, text: str) -> tuple[AgentUserMessage, tuple[AgentImageReference, ...]]:
        """Return a message with the images so far and those dropped into its text, and the latter alone.

        They stay those of the message that is being typed until `forget`: it may not be accepted.

        Raises:
            InvalidInputError: See `add`; nothing was added.
        """
        marked, paths = find_dropped_images(text, first=len(self._images) + 1)
        before = len(self._images)
        dropped = await self.add(paths)
        message = AgentUserMessage(marked, images=tuple(self._images))
        # The text has its paths again if it is typed once more.
        del self._images[before:]
        return message, dropped

    async def _store_file(self, path: Path) -> AgentImageReference:
        try:
            content = await asyncio.to_thread(_read_file, path)
            return await self._store.put_image(content)
        except OSError as error:
            raise InvalidInputError("image", f"{path}: {error.strerror or error}") from None
        except ImageValidationError as error:
            raise InvalidInputError("image", f"{path}: {error.problem}") from None
        except MediaStoreError as error:
            raise InvalidInputError("image", f"{path}: it cannot be kept: {error}") from None


def find_dropped_images(text: str, *, first: int = 1) -> tuple[str, tuple[Path, ...]]:
    """Return a text with a mark in place of each whole path to an image file, and those paths.

    A terminal writes a file that is dropped on it as its path, in quotes, with backslashes, or as a `file:`
    address. What names no file that exists, or one without the suffix of an image, stays text.

    Args:
        text: As it was typed.
        first: The number of the first image.
    """
    paths: list[Path] = []

    def mark(match: re.Match[str]) -> str:
        path = _read_dropped(match.group())
        if path.suffix.lower() not in _SUFFIXES or not _is_file(path):
            return match.group()
        paths.append(path)
        return f"[image {first + len(paths) - 1}: {path.name}]"

    return _DROPPED.sub(mark, text), tuple(paths)


def _read_dropped(word: str) -> Path:
    text = word[1:-1] if word[0] in "'\"" else re.sub(r"\\(.)", r"\1", word)
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    return _as_path(text)


def _as_path(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # `~` of a user that does not exist.
        return Path(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read_file(path: Path) -> bytes:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ImageValidationError("data", "is no file")
    if status.st_size > MAX_IMAGE_BYTES:
        raise ImageValidationError("data", f"is {status.st_size} bytes, the limit is {MAX_IMAGE_BYTES}")
    with path.open("rb") as file:
        return file.read(MAX_IMAGE_BYTES + 1)
