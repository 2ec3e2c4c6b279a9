"""The folder that local tools work in, and nothing outside it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from dex_agents import texts
from dex_agents.errors import ToolExecutionError

__all__ = ["Workspace"]

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SKIPPED_FOLDERS: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


class Workspace:
    """Opens files of one folder by paths relative to it.

    A path that is absolute, or that leaves the folder through `..` or a symbolic link, is refused. A link to
    another place of the folder may be followed. What was checked is what is opened: each part of the checked
    path is opened from the one before it, and a part that has become a link meanwhile is refused.
    """

    def __init__(self, folder: str) -> None:
        """Name the folder.

        Raises:
            ToolExecutionError: There is no such folder.
        """
        self.folder: Final = Path(os.path.realpath(folder))
        if not self.folder.is_dir():
            raise ToolExecutionError(texts.cli_folder_missing(folder))

    def locate(self, path: str) -> PurePosixPath:
        """Return a path relative to the folder with no link and no `..` in it.

        Raises:
            ToolExecutionError: The path leaves the folder, or cannot be a path.
        """
        if "\0" in path or not path.strip():
            raise ToolExecutionError(texts.cli_path_invalid(path))
        if path.startswith(("/", "~")):
            raise ToolExecutionError(texts.cli_path_outside(path))
        try:
            resolved = Path(os.path.realpath(self.folder / path))
            return PurePosixPath(resolved.relative_to(self.folder).as_posix())
        except ValueError:
            raise ToolExecutionError(texts.cli_path_outside(path)) from None
        except OSError as error:
            raise ToolExecutionError(texts.cli_path_failed(path, error.strerror or "")) from None

    def read(self, path: str, limit: int) -> bytes:
        """Return the first bytes of a file, at most `limit`.

        Raises:
            ToolExecutionError: It is outside, missing or no ordinary file.
        """
        place = self.locate(path)
        with self._failures(path), self._open_parent(place) as parent:
            # A pipe would hold the reader for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(place.name or ".", flags, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ToolExecutionError(texts.cli_path_failed(path, "it is not a file"))
                return file.read(limit)

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, old or new, so that a reader sees the old text or the new one.

        Raises:
            ToolExecutionError: It is outside, or cannot be written.
        """
        place = self.locate(path)
        if not place.name:
            raise ToolExecutionError(texts.cli_path_failed(path, "it is not a file"))
        with self._failures(path), self._open_parent(place, create=True) as parent:
            mode = 0o666 & ~_read_umask()
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise ToolExecutionError(texts.cli_path_failed(path, "it is not a file"))
                mode = stat.S_IMODE(status.st_mode)
            draft = f".{place.name[:200]}.{secrets.token_hex(6)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(draft, flags, 0o600, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                os.replace(draft, place.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=parent)
                raise

    def list_files(self, path: str) -> Iterator[tuple[str, int]]:
        """Give every file below a folder, or the file itself, as relative path and size, in order.

        Links are left out, and so are folders that hold no work of a person (`.git`, `.venv` and the like).

        Raises:
            ToolExecutionError: It is outside or missing.
        """
        place = self.locate(path)
        start = self.folder / place
        if start.is_file():
            yield place.as_posix(), start.stat().st_size
            return
        if not start.is_dir():
            raise ToolExecutionError(texts.cli_path_failed(path, "there is no such file or folder"))
        for folder, folders, names in os.walk(start, followlinks=False):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
            for name in sorted(names):
                file = Path(folder) / name
                with contextlib.suppress(OSError):
                    status = file.lstat()
                    if stat.S_ISREG(status.st_mode):
                        yield file.relative_to(self.folder).as_posix(), status.st_size

    @contextlib.contextmanager
    def _open_parent(self, place: PurePosixPath, *, create: bool = False) -> Generator[int]:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in place.parts[:-1]:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                inner = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _failures(self, path: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise ToolExecutionError(texts.cli_path_failed(path, error.strerror or "")) from None


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
