"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any, Final

__all__ = ["end_tasks"]

_PATIENCE_SECONDS: Final = 0.5


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and return when all have ended; what they raise is theirs.

    One cancellation is not always enough: before Python 3.12 `asyncio.wait_for` drops one that comes together
    with the result it waits for, and a task that reads in a loop then goes on.
    """
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_PATIENCE_SECONDS)
    for task in tasks:
        if not task.cancelled():
            task.exception()
