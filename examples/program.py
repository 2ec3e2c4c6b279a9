"""Runs an example as a program: what stops it becomes an exit status and one line on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any

from dex_agents import DexAgentsError
from examples.child_process import ChildStartError

__all__ = ["run_program"]


def run_program(main: Coroutine[Any, Any, int]) -> int:
    """Run a program to its end and return its exit status.

    Returns:
        What `main` returned; 130 after Ctrl-C; 1 when a child process, the engine or a session failed.
    """
    try:
        return _run(main)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:
        # Whoever read the output is gone, and Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(main)
    except* (DexAgentsError, ChildStartError, TimeoutError) as group:
        for error in _list_errors(group):
            _say(f"{type(error).__name__}: {error}")
    return 1


def _list_errors(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _list_errors(part)]
    return [error]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
