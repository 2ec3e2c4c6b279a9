"""The host: one process an agent, with its engine and its Worker, for any number of terminals.

::

    nobody ── first terminal starts it ──► serving ◄── a terminal attaches or leaves
                                             │
                     nobody attached, no turn at work, for a while; or asked to stop
                                             ▼
                                     closing: takes nobody in, gives the database back

A terminal that attaches is greeted with one JSON line and counted until it hangs up, however it ends. Turns
go on without a terminal; one that waits on a person does not keep the host. A killed host is replaced by the
next terminal that notices, on the same database and at the same addresses.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dex_agents.cli.agent_files import AgentFiles
from dex_agents.cli.config import AgentConfig, load_config
from dex_agents.cli.exit_status import DONE, FAILED, REFUSED
from dex_agents.cli.task_endings import end_tasks
from dex_agents.errors import DexAgentsError, EngineInUseError

__all__ = ["KEY_VARIABLES", "run_host"]

KEY_VARIABLES: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_COMPATIBLE_API_KEY",
)
"""What a model client may read from the environment; a greeting says which are set, never what they hold."""

_LINGER_SECONDS: Final = 60.0
_FIRST_TERMINAL_SECONDS: Final = 30.0
"""How long whoever started the host has to attach."""

_TAKE_OVER_SECONDS: Final = 15.0
_LOGGER = logging.getLogger("dex_agents.host")


def run_host(arguments: Sequence[str]) -> int:
    """Serve, and return the exit status.

    Says `{"ready": true}` or `{"error": ...}` on stdout, then closes it.

    Args:
        arguments: `--config FILE`, and `--linger SECONDS` to stay when nobody needs the host any more.
    """
    parser = argparse.ArgumentParser(prog="dex-agents host", add_help=False)
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("--linger", type=float, default=_LINGER_SECONDS)
    chosen = parser.parse_args(arguments)
    os.umask(0o077)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    _LOGGER.setLevel(logging.INFO)
    files = AgentFiles.locate(config=chosen.config)
    try:
        asyncio.run(_serve(files, load_config(files.config), chosen.linger))
    except DexAgentsError as error:
        _say({"error": str(error)})
        return REFUSED
    except Exception as error:
        _LOGGER.exception("the host stops because of a defect in it")
        _say({"error": f"{type(error).__name__}: {error}"})
        return FAILED
    return DONE


async def _serve(files: AgentFiles, config: AgentConfig, linger: float) -> None:
    from dex_agents.cli.agent import SessionFolders, build_flow
    from dex_agents.cli.session_list import connect_sessions
    from dex_agents.engine import LocalEngine
    from dex_agents.media.local_directory import LocalDirectoryMediaStore
    from dex_agents.session.worker import AgentWorker

    folders = SessionFolders()
    flow = build_flow(config, LocalDirectoryMediaStore(files.images), folders.find)
    engine = LocalEngine(files.database, listen=f"unix:{files.engine_socket}")
    files.make_socket_folder()
    await _start_engine(engine)
    try:
        async with (
            AgentWorker(flow, server_address=engine.server_address) as worker,
            connect_sessions(flow, engine.server_address) as sessions,
        ):
            folders.client = sessions.client
            host = _Host(config, engine.server_address, sessions.is_any_at_work)
            await host.open(files.host_socket)
            _say({"ready": True})
            _LOGGER.info("serving %s", files.config)
            await host.wait_for_end(worker.wait_until_stopped, linger)
            _LOGGER.info("ends")
    finally:
        # While the database is still ours: the next host makes sockets of its own at once.
        files.remove_sockets()
        await engine.stop()


async def _start_engine(engine: Any) -> None:
    deadline = time.monotonic() + _TAKE_OVER_SECONDS
    while True:
        try:
            await engine.start()
            return
        except EngineInUseError:
            # A host that ends gives the database back only when its last Steps are over.
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


class _Host:
    """Counts terminals and decides when nobody needs it."""

    def __init__(self, config: AgentConfig, server_address: str, is_any_at_work: Any) -> None:
        self._greeting = {
            "server_address": server_address,
            "pid": os.getpid(),
            "config": config.digest,
            "keys": [name for name in KEY_VARIABLES if os.environ.get(name)],
        }
        self._is_any_at_work = is_any_at_work
        self._attached: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def open(self, path: Path) -> None:
        """Take terminals in."""
        # The engine's lock is ours, so nobody listens there any more.
        path.unlink(missing_ok=True)  # noqa: ASYNC240
        self._server = await asyncio.start_unix_server(self._attend, path)

    async def wait_for_end(self, wait_until_stopped: Any, linger: float) -> None:
        """Return when the host is not needed or asked to end; the Worker's failure is raised."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ended.set)
        worker = asyncio.ensure_future(wait_until_stopped())
        idle = asyncio.ensure_future(self._wait_until_unused(linger))
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            done, _ = await asyncio.wait({worker, idle, ended}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._close()
            for writer in tuple(self._attached):
                writer.close()
            await end_tasks(worker, idle, ended)

    async def _wait_until_unused(self, linger: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_TERMINAL_SECONDS):
                await self._changed.wait()
        while True:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(linger):
                    await self._changed.wait()
                continue
            if not self._attached and not await self._is_any_at_work() and not self._attached:
                return

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._ended.is_set():
            writer.close()
            return
        self._attached.add(writer)
        self._changed.set()
        try:
            writer.write(json.dumps(self._greeting).encode() + b"\n")
            while line := await reader.readline():
                writer.write(json.dumps(await self._obey(line)).encode() + b"\n")
                await writer.drain()
        except OSError:
            _LOGGER.debug("a terminal hung up")
        finally:
            self._attached.discard(writer)
            self._changed.set()
            writer.close()

    async def _obey(self, line: bytes) -> dict[str, Any]:
        if line.strip() != b"retire":
            return {"retired": False, "because": "the host does not know this command"}
        others = len(self._attached) - 1
        if others:
            return {"retired": False, "because": f"{others} other terminal(s) use it"}
        if await self._is_any_at_work() or len(self._attached) > 1:
            return {"retired": False, "because": "a turn is at work"}
        self._close()
        self._ended.set()
        return {"retired": True}

    def _close(self) -> None:
        self._ended.set()
        if self._server is not None:
            self._server.close()


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(json.dumps(message), flush=True)
    # Whoever started the host reads until the end of its output.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
