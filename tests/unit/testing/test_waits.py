from __future__ import annotations

import asyncio

import pytest

from dex_agents import InvalidInputError
from dex_agents.testing import poll_until

_BOUND = 10.0


async def test_the_first_true_answer_is_returned() -> None:
    answers = iter((None, 0, "", "found", "later"))

    assert await poll_until(lambda: next(answers), timeout=_BOUND) == "found"


async def test_an_async_probe_is_awaited() -> None:
    answers = iter((None, "found"))

    async def probe() -> str | None:
        return next(answers)

    assert await poll_until(probe, timeout=_BOUND) == "found"


async def test_the_error_names_what_was_awaited() -> None:
    with pytest.raises(TimeoutError, match=r"^the refund: not within 0\.01 s$"):
        await poll_until(lambda: False, timeout=0.01, awaited="the refund")


async def test_a_probe_that_hangs_is_cancelled() -> None:
    was_cancelled = asyncio.Event()

    async def probe() -> bool:
        try:
            return await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    with pytest.raises(TimeoutError):
        await poll_until(probe, timeout=0.01)
    assert was_cancelled.is_set()


async def test_an_error_of_the_probe_passes_through_also_when_it_is_a_timeout() -> None:
    def probe() -> bool:
        raise TimeoutError("of the probe itself")

    with pytest.raises(TimeoutError, match="of the probe itself"):
        await poll_until(probe, timeout=_BOUND)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
async def test_a_bound_that_is_not_one_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidInputError, match=r"^timeout: must be more than 0 seconds"):
        await poll_until(lambda: True, timeout=timeout)
