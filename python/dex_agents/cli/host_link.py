"""A terminal's link to the host of its agent, which is started when there is none."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from dex_agents.cli.agent_files import AgentFiles
from dex_agents.cli.config import AgentConfig
from dex_agents.cli.host import KEY_VARIABLES
from dex_agents.cli.task_endings import end_tasks
from dex_agents.errors import EngineError

__all__ = ["HostLink", "attach_to_host", "retire_host"]

_GREETING_SECONDS: Final = 30.0
_START_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5

_DETACH: Final = "import os, sys\nif os.fork() == 0: os.execv(sys.argv[1], sys.argv[1:])"
"""Starts a process that is nobody's child, so that nobody has to wait for its end. An interpreter without
threads may fork; this one may not."""


class HostLink:
    """An attachment to a host; the host goes on as long as it lasts.

    Attributes:
        server_address: The host's engine; a host that takes the place of a killed one has the same.
        note: What the person should know about the host, or `None`.
    """

    def __init__(
        self, greeting: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server_address = str(greeting["server_address"])
        self.note: str | None = None
        self.greeting = greeting
        self.reader = reader
        self.writer = writer

    async def retire(self) -> str | None:
        """Ask the host to end; return why it goes on, or `None`."""
        self.writer.write(b"retire\n")
        with contextlib.suppress(TimeoutError, OSError, ValueError):
            async with asyncio.timeout(_GREETING_SECONDS):
                line = await self.reader.readline()
            reply = json.loads(line) if line else {"retired": True}
            return None if reply["retired"] else str(reply["because"])
        return "it does not answer"

    async def wait_until_lost(self) -> None:
        """Return when the host is gone."""
        with contextlib.suppress(OSError):
            while await self.reader.readline():
                pass

    async def hang_up(self) -> None:
        """End the attachment."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def attach_to_host(files: AgentFiles, config: AgentConfig) -> AsyncGenerator[HostLink]:
    """Attach to the agent's host for the length of the block, and start it as often as that takes.

    Raises:
        EngineError: The host cannot be started.
    """
    link = await _attach(files)
    reason = _find_reason_to_replace(link, config)
    if reason is not None:
        kept = await link.retire()
        if kept is None:
            await link.hang_up()
            link = await _attach(files)
        else:
            link.note = f"the running host {reason}, and goes on because {kept}"
    keeping = asyncio.create_task(_stay_attached(files, link))
    try:
        yield link
    finally:
        await end_tasks(keeping)


async def retire_host(files: AgentFiles) -> str | None:
    """End the agent's host, if there is one and nobody needs it; return why it goes on, or `None`."""
    link = await _greet(files)
    if link is None:
        return None
    kept = await link.retire()
    if kept is None:
        await link.wait_until_lost()
    await link.hang_up()
    return kept


def _find_reason_to_replace(link: HostLink, config: AgentConfig) -> str | None:
    if link.greeting.get("config") != config.digest:
        return "was started with another configuration"
    missing = [
        name for name in KEY_VARIABLES if os.environ.get(name) and name not in link.greeting.get("keys", ())
    ]
    return f"was started without {', '.join(missing)}" if missing else None


async def _stay_attached(files: AgentFiles, link: HostLink) -> None:
    present = link
    try:
        while True:
            await present.wait_until_lost()
            await present.hang_up()
            present = await _attach(files)
    finally:
        present.writer.close()


async def _attach(files: AgentFiles) -> HostLink:
    link = await _greet(files)
    if link is not None:
        return link
    descriptor = os.open(files.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Of the terminals that find no host, one starts it, and the others find that one.
        await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
        for _ in range(_ATTEMPTS):
            link = await _greet(files)
            if link is not None:
                return link
            await asyncio.to_thread(_start_host, files)
    finally:
        os.close(descriptor)
    raise EngineError(f"the host of {files.config} ends as soon as it is started; see {files.host_log}")


async def _greet(files: AgentFiles) -> HostLink | None:
    try:
        reader, writer = await asyncio.open_unix_connection(files.host_socket)
    except OSError:
        return None
    try:
        async with asyncio.timeout(_GREETING_SECONDS):
            line = await reader.readline()
        if line:
            return HostLink(json.loads(line), reader, writer)
    except (OSError, TimeoutError, ValueError):
        pass
    # It was ending just now, or was killed with this connection in its queue.
    writer.close()
    return None


def _start_host(files: AgentFiles) -> None:
    host = [sys.executable, "-P", "-m", "dex_agents", "host", "--config", str(files.config)]
    log = os.open(files.host_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _DETACH, *host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=files.config.parent,
            env=_build_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"the host cannot be started: {error.strerror}") from error
    finally:
        os.close(log)
    with process:
        assert process.stdout is not None
        can_be_read, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
        output = process.stdout.readline() if can_be_read else b""
    try:
        reply = json.loads(output)
    except ValueError:
        raise EngineError(f"the host ended before it was ready; see {files.host_log}") from None
    if "error" in reply:
        raise EngineError(str(reply["error"]))


def _build_environment() -> dict[str, str]:
    # The host starts in another folder, where a relative path would mean something else.
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if paths else dict(os.environ)
