"""A summary is paid for once, and every paid call counts once, whoever dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from dex_agents import AgentSessionClient, SpendCheck
from dex_agents.testing import EngineProcess, WorkerProcess
from tests.crash.context_agent import ANSWER, create_flow, gate_at, open_limiter, read_calls

pytestmark = pytest.mark.crash


@dataclass
class _Place:
    folder: Path
    engine: EngineProcess
    sessions: AgentSessionClient
    workers: contextlib.AsyncExitStack

    async def start_worker(self, *pause_at: str) -> WorkerProcess:
        return await self.workers.enter_async_context(
            WorkerProcess(
                "tests.crash.context_agent:create_flow",
                server_address=self.engine.server_address,
                arguments=(str(self.folder), *pause_at),
            )
        )

    async def count_paid_calls(self) -> int:
        check = SpendCheck(call_id="x", session_id="x", turn_id="turn-1", attempt=1, purpose="answer")
        for calls in range(100):
            limiter = open_limiter(self.folder, calls + 1)
            try:
                if await limiter.check(check) is None:
                    return calls
            finally:
                limiter.close()
        raise AssertionError("more than 100 calls")


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncGenerator[_Place]:
    async with (
        EngineProcess(tmp_path / "engine.db") as engine,
        contextlib.AsyncExitStack() as workers,
        AgentSessionClient.connect(
            create_flow(str(tmp_path)), server_address=engine.server_address
        ) as sessions,
    ):
        yield _Place(tmp_path, engine, sessions, workers)


async def _talk_until_a_worker_waits(place: _Place, point: str) -> None:
    """Send messages until one of them holds a Worker at a gate."""
    arrival = asyncio.create_task(gate_at(place.folder, point).wait_for_arrivals())
    while not arrival.done():
        await place.sessions.send_user_message("s", "question")
        idle = asyncio.create_task(place.sessions.wait_for_idle("s"))
        await asyncio.wait((arrival, idle), return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
    await arrival


@pytest.mark.requirement("compaction-once")
@pytest.mark.parametrize("victim", ["worker", "engine"])
async def test_what_dies_behind_a_summary_does_not_pay_for_it_again(place: _Place, victim: str) -> None:
    worker = await place.start_worker("answer behind a summary")
    await place.sessions.start_session("s")
    await _talk_until_a_worker_waits(place, "answer behind a summary")
    assert read_calls(place.folder).count("summary") == 1
    await worker.kill()
    if victim == "engine":
        await place.engine.kill()
        await place.engine.start()
    await place.start_worker()

    await place.sessions.wait_for_idle("s")
    snapshot = await place.sessions.get_agent_snapshot("s")

    calls = read_calls(place.folder)
    assert calls.count("summary") == 1
    assert snapshot.context_summary is not None
    assert [one.text for one in snapshot.messages if one.role == "assistant"] == [
        ANSWER
    ] * snapshot.turn_count
    # The call that was lost was answered to nobody, so it is in nobody's books.
    assert await place.count_paid_calls() == len(calls) - 1


async def test_a_summary_that_was_lost_is_made_again_and_covers_the_same(place: _Place) -> None:
    worker = await place.start_worker("summary")
    await place.sessions.start_session("s")
    await _talk_until_a_worker_waits(place, "summary")
    before = await place.sessions.get_agent_snapshot("s")
    await worker.kill()
    await place.start_worker()

    await place.sessions.wait_for_idle("s")
    after = await place.sessions.get_agent_snapshot("s")

    assert before.context_summary is None
    assert after.context_summary is not None
    assert after.context_summary.revision == 1
    assert after.messages[: len(before.messages)] == before.messages
    assert read_calls(place.folder).count("summary") == 2


@pytest.mark.requirement("spend-exactly-once")
async def test_a_call_that_was_told_of_and_lost_counts_beside_the_one_that_takes_its_place(
    place: _Place,
) -> None:
    worker = await place.start_worker("told")
    await place.sessions.start_session("s")
    await place.sessions.send_user_message("s", "hello")
    await gate_at(place.folder, "told").wait_for_arrivals()
    assert await place.count_paid_calls() == 1
    await worker.kill()
    await place.start_worker()

    await place.sessions.wait_for_idle("s")
    snapshot = await place.sessions.get_agent_snapshot("s")

    assert read_calls(place.folder) == ["answer", "answer"]
    assert await place.count_paid_calls() == 2
    assert [one.role for one in snapshot.messages] == ["user", "assistant"]
    assert snapshot.usage.model_calls == 1
