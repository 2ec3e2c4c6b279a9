"""A Worker of the warehouse as a process of its own: `python -m examples.fleet.worker`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dex_agents import AgentWorker
from examples.child_process import announce, stop_requested
from examples.fleet.agent import create_warehouse_flow
from examples.program import run_program

__all__ = ["main"]


async def _run(server_address: str, book_folder: Path) -> int:
    flow = create_warehouse_flow(book_folder)
    async with stop_requested() as stopping, AgentWorker(flow, server_address=server_address):
        announce(event="ready", pid=os.getpid())
        await stopping.wait()
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT, SIGTERM or the end of the parent."""
    parser = argparse.ArgumentParser(prog="python -m examples.fleet.worker")
    parser.add_argument("--server-address", required=True, help="the engine or Dex Server")
    parser.add_argument("--book", type=Path, required=True, help="folder of the reservations")
    options = parser.parse_args(arguments)
    return run_program(_run(options.server_address, options.book))


if __name__ == "__main__":
    sys.exit(main())
