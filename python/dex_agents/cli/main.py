"""The entry point of the `dex-agents` command.

`engine` and `--version` need no extra; everything else is put together in `app`, whose import raises
`ImportError` without the extra `cli`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import cast

from dex_agents import __version__
from dex_agents.cli.exit_status import REFUSED

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Defaults to those of the process.

    Returns:
        See `exit_status`: 0 when the command did what was asked, 2 when it could not begin.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    match given[:1]:
        case ["engine"]:
            return _run_engine(given)
        case ["host"]:
            from dex_agents.cli.host import run_host

            return run_host(given[1:])
        case ["version"] | ["--version"]:
            print(f"dex-agents {__version__}")
            return 0
        case _:
            try:
                from dex_agents.cli.app import run_app
            except ImportError as error:
                print(f"dex-agents: {error}", file=sys.stderr)
                return REFUSED
            return run_app(given)


def _run_engine(given: Sequence[str]) -> int:
    from dex_agents.cli.engine import add_engine_command

    parser = argparse.ArgumentParser(prog="dex-agents")
    add_engine_command(parser.add_subparsers(required=True, metavar="COMMAND"))
    chosen = parser.parse_args(given)
    run = cast("Callable[[argparse.Namespace], int]", chosen.run)
    return run(chosen)
