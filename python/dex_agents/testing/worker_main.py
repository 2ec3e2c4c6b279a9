"""What a `WorkerProcess` runs: one Worker until SIGINT, SIGTERM or the end of the process that started it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dex_agents.errors import InvalidInputError
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.session.worker import AgentWorker

__all__ = ["load_flow", "main"]


def load_flow(factory: str, arguments: Sequence[str]) -> AgentSessionFlow:
    """Return the Flow that a factory makes.

    Args:
        factory: `package.module:name`.
        arguments: What to call it with.

    Raises:
        InvalidInputError: There is no such function, or it returns something else than an `AgentSessionFlow`.
        ImportError: The module cannot be imported.
    """
    module_name, _, name = factory.partition(":")
    if not module_name or not name:
        raise InvalidInputError("factory", f"must be `package.module:name`, got {factory!r}")
    function: Callable[..., Any] | None = getattr(importlib.import_module(module_name), name, None)
    if not callable(function):
        raise InvalidInputError("factory", f"{module_name!r} has no function {name!r}")
    flow = function(*arguments)
    if not isinstance(flow, AgentSessionFlow):
        raise InvalidInputError(
            "factory", f"{factory!r} returned a {type(flow).__name__}, not an AgentSessionFlow"
        )
    return flow


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop.

    Args:
        arguments: Defaults to the command line.

    Returns:
        0 after a stop that was asked for.

    Raises:
        Exception: Why the Worker could not begin or go on.
    """
    parser = argparse.ArgumentParser(prog="python -m dex_agents.testing.worker_main")
    parser.add_argument("--server-address", required=True)
    parser.add_argument("--max-concurrent-tasks", type=int, default=32)
    parser.add_argument("factory")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args(arguments)
    # Stdout belongs to whoever started this: what the application prints goes to the log.
    announcements = os.dup(1)
    os.dup2(2, 1)
    flow = load_flow(options.factory, options.arguments)
    asyncio.run(_serve(flow, options.server_address, options.max_concurrent_tasks, announcements))
    return 0


async def _serve(
    flow: AgentSessionFlow, server_address: str, max_concurrent_tasks: int, announcements: int
) -> None:
    stopping = asyncio.Event()
    _watch_for_the_end(stopping)
    async with AgentWorker(
        flow, server_address=server_address, max_concurrent_tasks=max_concurrent_tasks
    ) as worker:
        os.write(announcements, b"ready\n")
        async with asyncio.TaskGroup() as tasks:
            gone = tasks.create_task(worker.wait_until_stopped())
            asked = tasks.create_task(stopping.wait())
            await asyncio.wait((gone, asked), return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            asked.cancel()
        if not stopping.is_set():
            raise RuntimeError("the Worker stopped by itself")


def _watch_for_the_end(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)

    def read_stdin() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stopping.set()

    # A file or /dev/null on stdin cannot be watched, and has no end that could go away.
    with contextlib.suppress(PermissionError):
        loop.add_reader(0, read_stdin)


if __name__ == "__main__":
    sys.exit(main())
