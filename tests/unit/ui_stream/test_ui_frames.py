"""What `ui_frames` hands to `json.dumps`, what it refuses, and what it does at its limits."""

from __future__ import annotations

import enum
import json
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

from dex_agents import _native, limits
from dex_agents.ui_stream import UI_STREAM_DONE, UI_STREAM_KEEP_ALIVE, UIStreamPart, encode_ui_frames
from tests.oracles.event_stream import EventStreamReader, read_events

MAX_DEPTH = 400


class Colour(enum.IntEnum):
    RED = 3


class Name(enum.StrEnum):
    BEE = "bee"


class Pair(NamedTuple):
    first: int
    second: int


def delta(text: str, owner: str = "1") -> UIStreamPart:
    return {"type": "text-delta", "id": owner, "delta": text}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"k": value}
    return value


def texts_of(stream: bytes) -> list[str]:
    return [json.loads(event.data)["delta"] for event in read_events(stream)]


NOT_SERVED: dict[str, tuple[Any, str]] = {
    "enum": ({"data": Colour.RED}, '{"data":3}'),
    "str subclass": ({"type": Name.BEE}, '{"type":"bee"}'),
    "named tuple": ({"data": Pair(1, 2)}, '{"data":[1,2]}'),
    "dict subclass": (OrderedDict(type="x"), '{"type":"x"}'),
    "keys that are no strings": ({1: "a", None: "b", 2.5: "c"}, '{"1":"a","null":"b","2.5":"c"}'),
    "lone surrogate beside an enum": ({"data": ["\ud800", Colour.RED]}, '{"data":["\ufffd",3]}'),
}


@pytest.mark.parametrize(("part", "text"), NOT_SERVED.values(), ids=NOT_SERVED.keys())
def test_a_part_that_is_not_plain_is_made_plain_by_json_dumps(part: Any, text: str) -> None:
    assert _native.encode_ui_frames([part], None, 0) is None
    assert encode_ui_frames([part]) == f"data: {text}\n\n".encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_json_has_not_is_null(number: float) -> None:
    assert encode_ui_frames([{"data": number}]) == b'data: {"data":null}\n\n'
    assert encode_ui_frames([{"data": [number, Colour.RED]}]) == b'data: {"data":[null,3]}\n\n'


@pytest.mark.parametrize("part", [None, "text", ["list"], 3])
def test_a_part_that_is_no_object_is_refused_by_its_place(part: Any) -> None:
    with pytest.raises(TypeError, match=r"parts\[1\]: a \w+ is no JSON object"):
        encode_ui_frames([delta("x"), part])


def test_what_json_dumps_refuses_is_refused() -> None:
    with pytest.raises(TypeError, match="Object of type bytes is not JSON serializable"):
        encode_ui_frames([{"data": b"x"}])
    cycle: dict[str, Any] = {}
    cycle["self"] = [cycle]
    with pytest.raises(ValueError, match="Circular reference detected"):
        encode_ui_frames([cycle])
    with pytest.raises(ValueError, match="Exceeds the limit"):
        encode_ui_frames([{"data": 10**5000}])


def test_parts_are_framed_to_a_depth_and_refused_below_it() -> None:
    deepest = nested(MAX_DEPTH)
    assert encode_ui_frames([deepest]) == f"data: {json.dumps(deepest, separators=(',', ':'))}\n\n".encode()
    for depth in (MAX_DEPTH + 1, 200_000):
        with pytest.raises(ValueError, match="nested more than 400 deep"):
            encode_ui_frames([nested(depth)])


def test_any_sequence_is_a_batch() -> None:
    batch = [delta("a"), delta("b")]
    assert encode_ui_frames(tuple(batch), event_ids=("1", "2")) == encode_ui_frames(
        batch, event_ids=["1", "2"]
    )


@pytest.mark.parametrize("event_id", ["a\nb", "a\rb", "a\0b", "\ud800"])
def test_an_event_id_that_no_stream_carries_is_refused_by_its_place(event_id: str) -> None:
    for part in (delta("x"), {"type": "start"}):
        with pytest.raises(ValueError, match=r"event_ids\[1\]: an event ID holds no line end"):
            encode_ui_frames([delta("x"), part], event_ids=["fine", event_id])


def test_event_ids_are_as_many_as_parts() -> None:
    with pytest.raises(ValueError, match="event_ids: one for each part"):
        encode_ui_frames([delta("x")], event_ids=[])


def test_an_event_id_is_a_string() -> None:
    ids: Any = [1]
    with pytest.raises(TypeError):
        encode_ui_frames([delta("x")], event_ids=ids)


def test_a_bound_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_joined_bytes: -1"):
        encode_ui_frames([delta("x")], max_joined_bytes=-1)


@pytest.mark.parametrize("letter", ["a", "\n", "é", "你", "\U0001f600", "\ud800", "\u2028"])
def test_a_huge_delta_is_one_event_with_all_of_its_text(letter: str) -> None:
    text = letter * 700_000
    stream = encode_ui_frames([delta("before "), delta(text), delta(" behind")])
    expected = text.replace("\ud800", "\ufffd")
    events = [line.removeprefix("data: ") for line in stream.decode().split("\n\n") if line]
    assert [json.loads(event)["delta"] for event in events] == ["before ", expected, " behind"]


def test_ten_thousand_deltas_are_a_few_frames_of_bounded_text() -> None:
    texts = [f"word {number}\n" for number in range(10_000)]
    folded = texts_of(encode_ui_frames([delta(text) for text in texts], max_joined_bytes=8192))
    assert "".join(folded) == "".join(texts)
    assert all(len(json.dumps(text)) - 2 <= 8192 for text in folded)
    spelled = sum(len(json.dumps(text)) - 2 for text in texts)
    assert 1 < len(folded) <= spelled // (8192 - 12) + 1


def test_the_default_bound_is_the_published_one() -> None:
    bound = limits.MAX_JOINED_DELTA_BYTES
    assert len(texts_of(encode_ui_frames([delta("a"), delta("b" * (bound - 1))]))) == 1
    assert len(texts_of(encode_ui_frames([delta("a"), delta("b" * bound)]))) == 2


def test_the_end_of_a_stream_is_an_event_and_a_keep_alive_is_none() -> None:
    reader = EventStreamReader()
    assert reader.feed(UI_STREAM_KEEP_ALIVE) == []
    assert reader.comments == ["keep-alive"]
    assert [event.data for event in reader.feed(UI_STREAM_DONE)] == ["[DONE]"]


def test_a_reader_keeps_an_event_that_is_cut_until_it_is_whole() -> None:
    stream = encode_ui_frames([delta("é\r\n \U0001f600")], event_ids=["é"])
    reader = EventStreamReader()
    assert [event for byte in stream[:-1] for event in reader.feed(bytes([byte]))] == []
    (event,) = reader.feed(stream[-1:])
    assert event.last_event_id == reader.last_event_id == "é"


def test_a_batch_that_other_threads_change_is_framed_whole() -> None:
    part: dict[str, Any] = {"type": "data-pair", "data": [0, 0]}
    batch: list[Any] = [part]
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            part["data"] = [number, number]
            part[f"key {number % 50}"] = "x" * (number % 70)
            part.pop(f"key {(number + 25) % 50}", None)
            batch[:] = [part] * (number % 5 + 1)

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            for event in encode_ui_frames(batch).decode().split("\n\n")[:-1]:
                first, second = json.loads(event.removeprefix("data: "))["data"]
                assert first == second
    finally:
        stop.set()
        for thread in threads:
            thread.join()
