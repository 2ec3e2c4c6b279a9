from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from dex_agents.engine.unit import Unit
from dex_agents.testing import poll_until
from tests.integration.engine.room import BOUND, AsyncStep, open_room

tokens = dex.Stream("tokens", str, 1 << 20)
small = dex.Stream("small", str, 1000)


class Speak(AsyncStep[int]):
    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        for number in range(input):
            tokens.write(context, f"token {number}")
        return dex.graceful_complete()


class Speaking(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Speak())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(tokens, small)


flow = Speaking()


async def test_a_reader_sees_every_message_of_a_step_in_order(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        reading = asyncio.create_task(room.client.read_stream("f", tokens, timeout=BOUND))
        await room.client.start_flow(flow, "f", 30)
        message = await reading
        values = [message.value]
        while len(values) < 30:
            message = await room.client.read_stream("f", tokens, message.resume_token, timeout=BOUND)
            values.append(message.value)
        assert values == [f"token {number}" for number in range(30)]
        assert message.source == "#Speak-1"


async def test_what_a_finished_step_wrote_is_there(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        for number in range(5):
            await room.run(flow, f"f{number}", 10)
            page = await room.client.list_stream_messages(f"f{number}", tokens, page_size=100)
            assert [each.value for each in page.messages] == [f"token {n}" for n in reversed(range(10))]


async def test_a_stream_is_read_on_after_a_restart_with_the_old_token(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        for number in range(5):
            await room.client.write_stream("f", tokens, "test", f"m{number}")
        message = await room.client.read_stream("f", tokens)
        message = await room.client.read_stream("f", tokens, message.resume_token)
        await room.restart()
        await room.client.write_stream("f", tokens, "test", "after")
        values: list[str] = []
        for _ in range(4):
            message = await room.client.read_stream("f", tokens, message.resume_token)
            values.append(message.value)
        assert values == ["m2", "m3", "m4", "after"]


async def test_a_listing_goes_back_page_by_page(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        for number in range(7):
            await room.client.write_stream("f", tokens, "test", f"m{number}")
            await room.client.write_stream("other", tokens, "test", "noise")
            if number == 3:
                await room.restart()
        values: list[str] = []
        token = ""
        for _ in range(3):
            page = await room.client.list_stream_messages("f", tokens, page_size=3, before_page_token=token)
            values += [each.value for each in page.messages]
            token = page.next_page_token
        assert values == [f"m{number}" for number in reversed(range(7))]
        assert token == ""


async def test_a_full_stream_drops_its_oldest_messages_over_all_flows(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        for number in range(30):
            await room.client.write_stream(f"f{number % 2}", small, "test", f"{number:03}" + "x" * 97)
        # A search waits until everything before it is folded, which is when streams are trimmed.
        await room.client.search_flows("", 1)
        kept: list[int] = []
        for flow_id in ("f0", "f1"):
            page = await room.client.list_stream_messages(flow_id, small, page_size=100)
            kept += [int(each.value[:3]) for each in page.messages]
        assert sorted(kept) == list(range(30 - len(kept), 30))
        assert 7 <= len(kept) <= 10
        oldest = await room.client.read_stream("f0", small)
        assert int(oldest.value[:3]) == min(number for number in kept if number % 2 == 0)


async def test_reading_an_empty_stream_ends_with_the_wait_time(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        with pytest.raises(dex.LongPollTimeoutError):
            await room.client.read_stream("nobody", tokens)
        with pytest.raises(dex.LongPollTimeoutError):
            await room.client.read_stream("nobody", tokens, timeout=timedelta(seconds=1))


async def test_two_readers_of_one_stream_both_see_everything(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:

        async def read() -> list[str]:
            values: list[str] = []
            token = ""
            while len(values) < 20:
                message = await room.client.read_stream("f", tokens, token, timeout=BOUND)
                token = message.resume_token
                values.append(message.value)
            return values

        readers = [asyncio.create_task(read()) for _ in range(2)]
        await room.client.start_flow(flow, "f", 20)
        assert await readers[0] == await readers[1] == [f"token {number}" for number in range(20)]


async def test_a_message_that_cannot_travel_inline_is_refused(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        with pytest.raises(dex.DexServiceError, match="above the limit of 3500000"):
            await room.client.write_stream("f", tokens, "test", "x" * 3_600_000)


@contextlib.contextmanager
def no_collection() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.requirement("engine-memory")
async def test_what_a_commit_wrote_is_let_go_without_the_garbage_collector(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        with no_collection():
            for number in range(50):
                await room.client.write_stream("f", tokens, "test", f"m{number}")
            await poll_until(
                lambda: sum(isinstance(one, Unit) for one in gc.get_objects()) < 10,
                timeout=BOUND.total_seconds(),
                awaited="the end of the units",
            )
