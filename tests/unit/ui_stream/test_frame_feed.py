"""One feed, many viewers: bounds in bytes and in time, bytes that are shared, viewers that come late."""

from __future__ import annotations

import asyncio

import pytest

from dex_agents.ui_stream import UI_STREAM_DONE, UIFrameFeed, UIStreamPart, encode_ui_frames

BOUND_SECONDS = 10


def delta(text: str) -> UIStreamPart:
    return {"type": "text-delta", "id": "1", "delta": text}


async def read_all(feed: UIFrameFeed, position: int = 0) -> list[bytes]:
    async with asyncio.timeout(BOUND_SECONDS):
        return [batch async for batch in feed.batches(position)]


async def test_parts_within_the_bounds_become_one_batch() -> None:
    feed = UIFrameFeed(max_batch_seconds=0.05)
    feed.add([delta("Hel")], now=100.0)
    feed.add([delta("lo")], now=100.04)
    assert feed.due_at == pytest.approx(100.05)
    feed.flush()
    assert feed.due_at is None
    feed.close()
    assert await read_all(feed) == [encode_ui_frames([delta("Hello")]), UI_STREAM_DONE]


async def test_the_first_part_waits_no_longer_than_the_bound() -> None:
    feed = UIFrameFeed(max_batch_seconds=0.05)
    feed.add([delta("a")], now=1.0)
    feed.add([delta("b")], now=1.05)
    feed.add([delta("c")], now=1.06)
    feed.close()
    assert await read_all(feed) == [
        encode_ui_frames([delta("ab")]),
        encode_ui_frames([delta("c")]),
        UI_STREAM_DONE,
    ]


async def test_enough_characters_are_a_batch_at_once() -> None:
    feed = UIFrameFeed(max_batch_characters=40)
    feed.add([delta("a" * 10)], now=0.0)
    assert feed.due_at is not None
    feed.add([delta("b" * 10)], now=0.0)
    assert feed.due_at is None


@pytest.mark.requirement("ui-frames-once")
async def test_viewers_share_the_bytes_of_one_encoding() -> None:
    feed = UIFrameFeed(max_batch_seconds=0)
    viewers = [feed.batches() for _ in range(100)]
    for number in range(5):
        feed.add([delta(str(number))], now=float(number))
        first, *others = [await anext(viewer) for viewer in viewers]
        assert first == encode_ui_frames([delta(str(number))])
        assert all(other is first for other in others)


async def test_a_viewer_that_waits_gets_the_next_batch() -> None:
    feed = UIFrameFeed(max_batch_seconds=0)
    viewer = asyncio.create_task(read_all(feed))
    done, _ = await asyncio.wait({viewer}, timeout=0)
    assert done == set()
    feed.add([delta("x")], now=0.0)
    feed.close()
    assert await viewer == [encode_ui_frames([delta("x")]), UI_STREAM_DONE]


async def test_a_late_viewer_reads_from_the_first_part_or_from_where_it_was() -> None:
    feed = UIFrameFeed(max_batch_seconds=0)
    feed.add([{"type": "start", "messageId": "m"}], now=0.0)
    feed.add([delta("x")], now=1.0)
    feed.close()
    whole = await read_all(feed)
    assert whole[0] == encode_ui_frames([{"type": "start", "messageId": "m"}])
    assert await read_all(feed, 1) == whole[1:]


async def test_a_slow_viewer_holds_up_nobody_and_misses_nothing() -> None:
    feed = UIFrameFeed(max_batch_seconds=0)
    slow = feed.batches()
    feed.add([delta("0")], now=0.0)
    received = [await anext(slow)]
    for number in range(1, 4):
        feed.add([delta(str(number))], now=float(number))
    feed.close()
    fast = await read_all(feed)
    received += [batch async for batch in slow]
    assert received == fast


async def test_closing_flushes_once_and_refuses_what_comes_later() -> None:
    feed = UIFrameFeed()
    feed.add([delta("x")], now=0.0)
    feed.close()
    feed.close()
    assert await read_all(feed) == [encode_ui_frames([delta("x")]), UI_STREAM_DONE]
    with pytest.raises(ValueError, match="the feed is closed"):
        feed.add([delta("y")], now=1.0)


async def test_nothing_to_add_opens_no_batch() -> None:
    feed = UIFrameFeed()
    feed.add([], now=0.0)
    feed.flush()
    assert feed.due_at is None
    feed.close()
    assert await read_all(feed) == [UI_STREAM_DONE]


@pytest.mark.parametrize("bounds", [{"max_batch_characters": -1}, {"max_batch_seconds": -0.1}])
def test_a_bound_below_zero_is_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a bound is negative"):
        UIFrameFeed(**bounds)
