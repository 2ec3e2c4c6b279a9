"""A Python process of its own that a test starts, waits for and kills."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dex_agents.testing.waits import require_bound

__all__ = ["ChildProcess"]

_LOG_TAIL_BYTES: Final = 8 * 1024


class ChildProcess(abc.ABC):
    """A Python process that says on stdout when it is ready, and is killed when the async context ends.

    The process can import what this one can. Its stdin is a pipe that stays open as long as this process
    lives. What it writes to stderr is kept for `log`.
    """

    def __init__(self, name: str, *, start_timeout: float) -> None:
        """Name the process; nothing is started yet.

        Args:
            name: For errors.
            start_timeout: Seconds until it must be ready.

        Raises:
            InvalidInputError: `start_timeout` is not more than 0.
        """
        self._name = name
        self._start_timeout = require_bound("start_timeout", start_timeout)
        self._process: Process | None = None
        self._resources = contextlib.ExitStack()
        self._log: int | None = None

    @property
    def pid(self) -> int:
        """The process ID of the latest process.

        Raises:
            RuntimeError: None was started.
        """
        return self._latest().pid

    @property
    def is_running(self) -> bool:
        """Whether a process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> str:
        """What the processes wrote to stderr; the last 8 KiB."""
        if self._log is None:
            return ""
        start = max(0, os.fstat(self._log).st_size - _LOG_TAIL_BYTES)
        # A read at a position leaves the offset alone, which the process shares.
        return os.pread(self._log, _LOG_TAIL_BYTES, start).decode(errors="replace")

    async def start(self) -> None:
        """Start the process and wait until it is ready; after a kill this starts another.

        Raises:
            RuntimeError: The context is not entered, the process runs already, it ended before it was ready,
                or it was not ready in time; the text holds the end of its log.
        """
        if self._log is None:
            raise RuntimeError(f"{self._name} is an async context: enter it first")
        if self.is_running:
            raise RuntimeError(f"{self._name} runs already, as process {self.pid}")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments(),
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        )
        self._process = process
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._start_timeout):
                line = (await process.stdout.readline()).decode().strip()
        except TimeoutError:
            await self.kill()
            raise RuntimeError(
                f"{self._name} was not ready within {self._start_timeout:g} s\n{self.log}"
            ) from None
        except BaseException:
            await self.kill()
            raise
        if not line:
            raise RuntimeError(
                f"{self._name} ended with exit status {await process.wait()} before it was ready\n{self.log}"
            )
        self._on_ready(line)

    async def kill(self) -> None:
        """End the process with SIGKILL, so that nothing of it can run any more, and wait for its end."""
        if self._process is None:
            return
        if self._process.returncode is None:
            # It may end by itself just now.
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    async def stop(self, *, timeout: float = 60.0) -> int:
        """Ask the process to end, with SIGTERM, and wait until it has.

        Args:
            timeout: Seconds to wait.

        Returns:
            Its exit status.

        Raises:
            InvalidInputError: `timeout` is not more than 0.
            RuntimeError: None was started.
            TimeoutError: It still runs.
        """
        require_bound("timeout", timeout)
        process = self._latest()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            return await asyncio.wait_for(process.wait(), timeout)
        except TimeoutError:
            raise TimeoutError(f"{self._name} has not ended within {timeout:g} s") from None

    async def __aenter__(self) -> Self:
        """Start; see `start`."""
        with contextlib.ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dex-agents-")))
            self._log = os.open(folder / "log", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            opened.callback(self._close_log, self._log)
            self._prepare(folder)
            await self.start()
            self._resources = opened.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the process: whatever it was doing must survive that."""
        await self.kill()
        self._resources.close()

    def _prepare(self, folder: Path) -> None:  # noqa: B027  # not every process needs one
        """Take a private folder that exists as long as the context."""

    @abc.abstractmethod
    def _arguments(self) -> Sequence[str]:
        """Return what follows the interpreter on the command line."""

    def _on_ready(self, line: str) -> None:  # noqa: B027  # not every process says more than that
        """Take the line by which the process says that it is ready."""

    def _close_log(self, descriptor: int) -> None:
        self._log = None
        os.close(descriptor)

    def _latest(self) -> Process:
        if self._process is None:
            raise RuntimeError(f"{self._name} was not started")
        return self._process
