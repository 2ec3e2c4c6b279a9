"""One engine a database: an exclusive lock on a file beside it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dex_agents.errors import EngineDatabaseError, EngineInUseError


class DatabaseLock:
    """Holds `<database>.lock` until it is released or the process ends, whichever way."""

    def __init__(self, path: str) -> None:
        """Take the lock.

        Raises:
            EngineInUseError: Another engine, of this process or of another, holds it.
            EngineDatabaseError: The lock file cannot be created.
        """
        self._file: int | None = None
        lock_path = Path(f"{path}.lock")
        try:
            file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EngineDatabaseError(path, f"the lock file cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_pid(file)
            os.close(file)
            raise EngineInUseError(path, holder) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two engines lock two files of that
        name.
        """
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _read_pid(file: int) -> int | None:
    text = os.pread(file, 32, 0)
    return int(text) if text.isdigit() else None
