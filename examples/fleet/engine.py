"""The fleet's engine as a process of its own, so that it shares no interpreter with whoever talks to it.

`dex-agents engine` does the same for an engine that outlives the program; this one ends with its parent.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dex_agents.engine import LocalEngine
from examples.child_process import announce, stop_requested
from examples.program import run_program

__all__ = ["main"]


async def _run(database: Path) -> int:
    async with stop_requested() as stopping, LocalEngine(database) as engine:
        announce(event="ready", address=engine.server_address)
        await stopping.wait()
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT, SIGTERM or the end of the parent."""
    parser = argparse.ArgumentParser(prog="python -m examples.fleet.engine")
    parser.add_argument("--data", type=Path, required=True, help="the database file")
    return run_program(_run(parser.parse_args(arguments).data))


if __name__ == "__main__":
    sys.exit(main())
