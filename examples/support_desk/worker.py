"""A Worker of the support desk as a process of its own: `python -m examples.support_desk.worker`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dex_agents import AgentSessionFlow, AgentWorker
from examples.child_process import announce, stop_requested
from examples.program import run_program
from examples.support_desk.agent import create_support_desk_flow
from examples.support_desk.file_reader import DATA_FOLDER

__all__ = ["main"]


async def _run(flow: AgentSessionFlow, server_address: str) -> int:
    async with stop_requested() as stopping, AgentWorker(flow, server_address=server_address):
        announce(event="ready", pid=os.getpid())
        await stopping.wait()
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT, SIGTERM or the end of the parent."""
    parser = argparse.ArgumentParser(prog="python -m examples.support_desk.worker")
    parser.add_argument("--server-address", required=True, help="the engine or Dex Server")
    parser.add_argument("--provider-address", required=True, help="the payment provider, host:port")
    parser.add_argument("--files", type=Path, default=DATA_FOLDER, help="the desk's files")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="slow down for a watcher")
    options = parser.parse_args(arguments)
    try:
        flow = create_support_desk_flow(options.provider_address, options.files, pace=options.pace)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return run_program(_run(flow, options.server_address))


if __name__ == "__main__":
    sys.exit(main())
