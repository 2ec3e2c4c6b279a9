"""`dex-agents engine`: the local engine as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from typing import TYPE_CHECKING

from dex_agents.errors import EngineError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

EXIT_OK = 0
EXIT_REFUSED = 2
"""Bad usage, an unusable or used database, an unusable address, or a database that cannot be written any
more."""


def add_engine_command(subparsers: Subparsers) -> None:
    """Add the `engine` command to a command line.

    The parsed arguments carry a function `run`, which takes them and returns the exit status.
    """
    parser = subparsers.add_parser(
        "engine",
        help="run the local engine",
        description="Run the local engine until SIGINT or SIGTERM. Prints one line with its address when"
        " it serves; logs go to stderr. There is no authentication: whoever reaches the address is served.",
    )
    parser.add_argument("--data", required=True, metavar="FILE", help="the database file; created if missing")
    parser.add_argument(
        "--listen",
        required=True,
        metavar="ADDRESS",
        help="HOST:PORT (port 0 lets the system choose) or unix:/PATH",
    )
    parser.add_argument(
        "--synchronous",
        choices=("full", "normal"),
        default="full",
        help="full (the default) survives a loss of power, normal the end of the process",
    )
    parser.set_defaults(run=run_engine)


def run_engine(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        asyncio.run(_serve(arguments))
    except EngineError as error:
        print(f"dex-agents engine: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_OK
    return EXIT_OK


async def _serve(arguments: argparse.Namespace) -> None:
    # Imported here: gRPC takes a noticeable part of a second, which `dex-agents --help` need not pay.
    from dex_agents.engine import serve

    until = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, until.set)
    with contextlib.suppress(BrokenPipeError):
        await serve(
            arguments.data,
            listen=arguments.listen,
            synchronous=arguments.synchronous,
            on_ready=lambda address: print(f"dex-agents engine: listening on {address}", flush=True),
            until=until,
        )
