"""Both ends of a program's child processes: the parent starts and kills them, a child knows when to stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["ChildProcess", "ChildStartError", "announce", "stop_requested"]

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class ChildStartError(RuntimeError):
    """A child process was not ready in time, or ended before it was."""


class ChildProcess:
    """A Python module that runs as a process of its own and announces itself as JSON lines on stdout.

    Its stdin is a pipe that the parent never writes to: it closes when the parent ends in whatever way, and a
    child that watches it does not outlive its parent.

    Attributes:
        name: For messages.
        ready: The child's first announcement.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.ready: dict[str, Any] = {}
        self._process = process
        self._announcements: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        # Read at once and whether anybody asks or not: a child must never wait for room in the pipe.
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, name: str, module: str, *arguments: str, python: str = sys.executable
    ) -> ChildProcess:
        """Start `python -m module` and wait for its first announcement.

        Args:
            name: For messages.
            module: What to run.
            arguments: For the module.
            python: The interpreter, of another environment for a child that needs other packages.

        Raises:
            ChildStartError: It ended, or announced nothing within 60 s; its own words are on stderr.
        """
        process = await asyncio.create_subprocess_exec(
            python, "-m", module, *arguments, stdin=PIPE, stdout=PIPE
        )
        child = cls(name, process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                announcement = await child.next_announcement()
        except BaseException as error:
            await child.kill()
            if isinstance(error, TimeoutError):
                raise ChildStartError(f"{name} did not start within {_START_SECONDS:g} s") from None
            raise
        if announcement is None:
            status = await process.wait()
            raise ChildStartError(f"{name} ended with exit status {status} before it was ready")
        child.ready = announcement
        return child

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    async def next_announcement(self) -> dict[str, Any] | None:
        """Return the next announcement, or `None` when the process has ended."""
        announcement = await self._announcements.get()
        if announcement is None:
            self._announcements.put_nowait(None)
        return announcement

    async def kill(self) -> None:
        """End the process with SIGKILL, so that nothing of it can run any more, and wait for its end."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def stop(self) -> None:
        """Ask the process to end and wait for it; a process that does not end within 30 s is killed."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, name: str, module: str, *arguments: str, python: str = sys.executable
    ) -> AsyncIterator[ChildProcess]:
        """Start a child, and stop it when the block is left."""
        child = await cls.start(name, module, *arguments, python=python)
        try:
            yield child
        finally:
            await child.stop()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._announcements.put_nowait(json.loads(line))
        finally:
            self._announcements.put_nowait(None)


def announce(**fields: object) -> None:
    """Tell the parent something; the first announcement says that the child is ready."""
    print(json.dumps(fields), flush=True)


@contextlib.asynccontextmanager
async def stop_requested() -> AsyncIterator[asyncio.Event]:
    """Give an event that is set by SIGINT, by SIGTERM, and, when stdin is a pipe, by the parent's end."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    with contextlib.ExitStack() as cleanup:
        if not sys.stdin.isatty():
            descriptor = sys.stdin.fileno()

            def read_stdin() -> None:
                if not os.read(descriptor, 4096):
                    loop.remove_reader(descriptor)
                    stopping.set()

            try:
                loop.add_reader(descriptor, read_stdin)
                cleanup.callback(loop.remove_reader, descriptor)
            except (OSError, PermissionError):
                # A regular file or /dev/null cannot be watched, and has no other end that could go away.
                pass
        yield stopping
