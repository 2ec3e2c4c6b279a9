"""Waiting under a bound for something that has no event of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, overload

from dex_agents.errors import InvalidInputError

__all__ = ["poll_until", "require_bound"]

ResultT = TypeVar("ResultT")

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.02


@overload
async def poll_until(
    probe: Callable[[], Awaitable[ResultT | None]], *, timeout: float, awaited: str = ...
) -> ResultT: ...
@overload
async def poll_until(
    probe: Callable[[], ResultT | None], *, timeout: float, awaited: str = ...
) -> ResultT: ...
async def poll_until(probe: Callable[[], Any], *, timeout: float, awaited: str = "a probe") -> Any:
    """Ask until the answer is true, and return that answer.

    For what other processes do and nothing announces: a file, an outside system, a session's progress. Where
    there is an event to wait for, wait for that. The pause between two questions grows to 20 ms.

    Args:
        probe: Asked again and again; an async one is cancelled when the time is over.
        timeout: Seconds in all, more than 0.
        awaited: What is waited for, for the error's text.

    Raises:
        InvalidInputError: `timeout` is not more than 0.
        TimeoutError: No answer was true in time.
        Exception: Whatever the probe raises; it is not asked again.
    """
    require_bound("timeout", timeout)
    pause = _FIRST_PAUSE
    bound = asyncio.timeout(timeout)
    try:
        async with bound:
            while True:
                answer = probe()
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer:
                    return answer
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
    except TimeoutError:
        if not bound.expired():
            raise
        raise TimeoutError(f"{awaited}: not within {timeout:g} s") from None


def require_bound(field: str, seconds: float) -> float:
    """Return a bound in seconds.

    Raises:
        InvalidInputError: It is not more than 0.
    """
    if not seconds > 0:
        raise InvalidInputError(field, f"must be more than 0 seconds, got {seconds!r}")
    return seconds
