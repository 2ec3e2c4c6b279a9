"""A media store in a directory, for a client and Workers that share a file system.

Images lie in `<root>/sha256/<sha256>`. Every name is opened relative to an open directory, without following
a symbolic link, so that nobody who swaps a name under the root meanwhile leads a read or a write elsewhere.
The path to the root itself is the owner's business, links included.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dex_agents.errors import MediaStoreError
from dex_agents.media.image_check import ImageBuffer
from dex_agents.media.references import (
    build_image_reference,
    require_short_image_uris,
    require_store_image_reference,
    verify_image_bytes,
)
from dex_agents.wire.images import AgentImageReference

__all__ = ["LocalDirectoryMediaStore"]

_IMAGES: Final = "sha256"
_OPEN_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_OPEN_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class LocalDirectoryMediaStore:
    """Keeps images in a directory; they survive the process and the power.

    Needs a POSIX file system. Any number of stores and processes may use one root at the same time; they must
    spell it alike, since references hold its text.

    Args:
        root: The absolute path of the directory; made, with those above it, when the first image is put.
        accept_damaged: Whether images that cannot be read to their end are taken.

    Raises:
        ValueError: `root` is not absolute, or makes image references longer than they may be.
        NotImplementedError: This system cannot open files relative to a directory.
    """

    def __init__(self, root: str | os.PathLike[str], *, accept_damaged: bool = True) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise NotImplementedError("a local directory media store needs a POSIX system")
        text = os.fspath(root)
        if not Path(text).is_absolute() or "\0" in text:
            raise ValueError(f"root: must be an absolute path, not {text!r}")
        # As text: what a link leads to today must not become part of a reference.
        self._root: Final = "/" + os.path.normpath(text).strip("/")
        self._store_uri: Final = "file://" + quote(os.fsencode(self._root.rstrip("/")), safe="/-._~")
        self._accept_damaged: Final = accept_damaged
        require_short_image_uris(self._store_uri)

    async def put_image(self, data: ImageBuffer, /) -> AgentImageReference:
        """See `MediaStore.put_image`.

        Durability:
            When it returns, the image and the names that lead to it are on the disk, even if another process
            wrote them. A put that was killed leaves at most a temporary file beside the images.
        """
        content = bytes(data)
        return await asyncio.to_thread(self._put, content)

    async def get_image(self, reference: AgentImageReference, /) -> bytes:
        """See `MediaStore.get_image`."""
        return await asyncio.to_thread(self._get, reference)

    def _put(self, content: bytes) -> AgentImageReference:
        reference = build_image_reference(content, self._store_uri, accept_damaged=self._accept_damaged)
        with _store_errors(reference.uri), self._made_images_directory() as directory:
            if not _holds(directory, reference, content):
                _write_image(directory, reference.sha256, content)
            os.fsync(directory)
        return reference

    def _get(self, reference: AgentImageReference) -> bytes:
        require_store_image_reference(reference, self._store_uri)
        try:
            with (
                _store_errors(reference.uri, passing=FileNotFoundError),
                _opened(self._root, _OPEN_DIRECTORY) as root,
                _opened(_IMAGES, _OPEN_DIRECTORY | _OPEN_NO_LINK, root) as directory,
            ):
                content = _read_image(directory, reference)
        except FileNotFoundError as error:
            raise MediaStoreError(reference.uri, "the store has no such image") from error
        verify_image_bytes(reference, content)
        return content

    @contextmanager
    def _made_images_directory(self) -> Generator[int, None, None]:
        """Open the directory of the images, and make sure that the names on the way are on the disk."""
        _make_directories(Path(self._root))
        with _opened(self._root, _OPEN_DIRECTORY) as root:
            with suppress(FileExistsError):
                os.mkdir(_IMAGES, 0o700, dir_fd=root)
            os.fsync(root)
            # A directory that this process may not list is not one in which it made the root.
            with suppress(PermissionError), _opened("..", _OPEN_DIRECTORY, root) as parent:
                os.fsync(parent)
            with _opened(_IMAGES, _OPEN_DIRECTORY | _OPEN_NO_LINK, root) as directory:
                yield directory


def _make_directories(path: Path) -> None:
    """Make a directory and those above it that are missing; what is made is on the disk."""
    if path.is_dir():
        return
    _make_directories(path.parent)
    with suppress(FileExistsError):
        path.mkdir(0o700)
    with _opened(path.parent, _OPEN_DIRECTORY) as parent:
        os.fsync(parent)


def _holds(directory: int, reference: AgentImageReference, content: bytes) -> bool:
    """Say whether the image is there already; anything else under its name is an error."""
    try:
        stored = _read_image(directory, reference)
    except FileNotFoundError:
        return False
    if stored != content:
        raise _RefusedError("other bytes have the name of the image")
    return True


def _read_image(directory: int, reference: AgentImageReference) -> bytes:
    """Read at most one byte more than the reference says."""
    # A FIFO would block the open until somebody writes to it.
    flags = os.O_RDONLY | os.O_NONBLOCK | _OPEN_NO_LINK
    with _opened(reference.sha256, flags, directory) as file:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _RefusedError("the stored image is no regular file")
        # None at all is a file that another put of the same image replaced after it was opened.
        if status.st_nlink > 1:
            raise _RefusedError(f"the stored image has {status.st_nlink} hard links, one is allowed")
        if status.st_size != reference.size_bytes:
            raise _RefusedError(
                f"the stored image has {status.st_size} bytes, the reference says {reference.size_bytes}"
            )
        with os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(reference.size_bytes + 1)


def _write_image(directory: int, name: str, content: bytes) -> None:
    temporary = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_NO_LINK
    try:
        with _opened(temporary, flags, directory) as file:
            with os.fdopen(file, "wb", closefd=False) as stream:
                stream.write(content)
            os.fsync(file)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


@contextmanager
def _opened(path: str | Path, flags: int, directory: int | None = None) -> Generator[int, None, None]:
    descriptor = os.open(path, flags, 0o600, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _RefusedError(Exception):
    """Something under the root is not what the store puts there."""


@contextmanager
def _store_errors(uri: str, passing: type[OSError] | tuple[()] = ()) -> Generator[None, None, None]:
    try:
        yield
    except _RefusedError as refused:
        raise MediaStoreError(uri, str(refused)) from None
    except passing:
        raise
    except OSError as error:
        raise MediaStoreError(uri, error.strerror or type(error).__name__) from error
