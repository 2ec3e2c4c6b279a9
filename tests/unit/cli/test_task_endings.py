from __future__ import annotations

import asyncio
import contextlib

from dex_agents.cli.task_endings import end_tasks


async def test_a_task_that_misses_a_cancellation_is_ended_all_the_same() -> None:
    missed = 0
    entered = asyncio.Event()

    async def miss_twice() -> None:
        nonlocal missed
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                entered.set()
                await asyncio.Event().wait()
            missed += 1
        await asyncio.Event().wait()

    async def fail() -> None:
        raise ValueError("its own")

    tasks = asyncio.ensure_future(miss_twice()), asyncio.ensure_future(fail())
    await entered.wait()
    await end_tasks(*tasks)
    assert missed == 2
    assert tasks[0].cancelled()
    assert isinstance(tasks[1].exception(), ValueError)
