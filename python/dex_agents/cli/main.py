"""The entry point of the `dex-agents` command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import cast

from dex_agents import __version__
from dex_agents.cli.engine import add_engine_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Defaults to those of the process.

    Returns:
        0 when the command did what was asked, 2 when it could not begin.
    """
    parser = argparse.ArgumentParser(prog="dex-agents", description="Durable AI agent sessions.")
    parser.add_argument("--version", action="version", version=f"dex-agents {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_engine_command(commands)
    chosen = parser.parse_args(arguments)
    run = cast("Callable[[argparse.Namespace], int]", chosen.run)
    return run(chosen)
