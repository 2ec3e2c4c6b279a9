"""The event loop of processes and threads that are this package's own: uvloop's where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run_on_fast_loop"]

ResultT = TypeVar("ResultT")


def run_on_fast_loop(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine as `asyncio.run` does, with the extra `uvloop` on its event loop.

    An engine or a Worker does little else than move frames, so its loop is a quarter to a third of its work.

    Args:
        main: What to run; the loop ends with it.

    Returns:
        What it returned.
    """
    with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
        return runner.run(main)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
