"""A point in a Worker's code at which a test can hold it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from dex_agents.testing.waits import poll_until, require_bound

__all__ = ["FileGate"]

_PAUSE: Final = 0.005


class FileGate:
    """Holds code of any process at one point until a test lets it go on.

    The Worker's code and the test each make a gate with the same path. A gate is closed until it is opened::

        gate = FileGate(folder / "refund-sent")   # in both processes
        await gate.arrive()                       # in the tool: says that it is here, and waits
        (pid,) = await gate.wait_for_arrivals()   # in the test: now the tool is exactly there
        await worker.kill()                       # ... or gate.open()

    It is two files beside each other, so it works whatever becomes of the processes: one that is killed while
    it waits leaves its arrival behind, and nothing else.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 60.0) -> None:
        """Name the gate; nothing is touched yet.

        Args:
            path: Names it, in a folder that exists; the files are `<path>.arrivals` and `<path>.open`.
            timeout: Seconds after which whoever waits at the gate gives up.

        Raises:
            InvalidInputError: `timeout` is not more than 0.
        """
        self._name = os.fspath(path)
        self._arrivals = Path(f"{self._name}.arrivals")
        self._open = Path(f"{self._name}.open")
        self._timeout = require_bound("timeout", timeout)

    @property
    def is_open(self) -> bool:
        """Whether whoever arrives goes on at once."""
        return self._open.exists()

    @property
    def arrivals(self) -> tuple[int, ...]:
        """The process ID of each arrival so far, oldest first."""
        try:
            return tuple(int(line) for line in self._arrivals.read_text().splitlines())
        except FileNotFoundError:
            return ()

    async def arrive(self) -> None:
        """Say that this process is at the gate, and wait until it is open.

        Raises:
            TimeoutError: It was not opened in time.

        Durability:
            Each attempt of a Step arrives anew; the arrival of a killed one stays counted.
        """
        self._note_arrival()
        await poll_until(
            lambda: self.is_open, timeout=self._timeout, awaited=f"the gate {self._name!r} to open"
        )

    def arrive_blocking(self) -> None:
        """Do as `arrive` does in code that is not async; blocks its thread.

        Raises:
            TimeoutError: It was not opened in time.
        """
        self._note_arrival()
        deadline = time.monotonic() + self._timeout
        while not self.is_open:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the gate {self._name!r} to open: not within {self._timeout:g} s")
            time.sleep(_PAUSE)

    async def wait_for_arrivals(self, count: int = 1) -> tuple[int, ...]:
        """Wait until so many arrivals were made in all, and return the process ID of each, oldest first.

        Raises:
            TimeoutError: They did not come in time.
        """

        def enough() -> tuple[int, ...]:
            found = self.arrivals
            return found if len(found) >= count else ()

        return await poll_until(
            enough, timeout=self._timeout, awaited=f"{count} arrivals at the gate {self._name!r}"
        )

    def open(self) -> None:
        """Let go on whoever is at the gate or arrives later."""
        self._open.touch()

    def close(self) -> None:
        """Hold whoever arrives from now on."""
        self._open.unlink(missing_ok=True)

    def _note_arrival(self) -> None:
        # One write to a file opened for appending is not mixed with that of another process.
        descriptor = os.open(self._arrivals, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{os.getpid()}\n".encode())
        finally:
            os.close(descriptor)
