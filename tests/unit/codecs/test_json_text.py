"""What `json_text` hands to `json.dumps`, and what it does at its limits."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

from dex_agents import _native
from dex_agents.codecs.json_text import encode_compact_sorted_json_text, encode_json_text
from dex_agents.ui_stream import encode_ui_frames
from tests.oracles.json_text import VARIANTS, Encoder

MAX_DEPTH = 400


class WholeNumber(int):
    pass


class Colour(enum.IntEnum):
    RED = 3


class Pair(NamedTuple):
    first: int
    second: int


def nested(depth: int, *, with_dicts: bool = False) -> Any:
    value: Any = []
    for level in range(depth - 1):
        value = {"k": value} if with_dicts and level % 2 else [value]
    return value


def self_containing() -> list[Any]:
    value: list[Any] = ["text"]
    value.append({"again": value})
    return value


SERVED: dict[str, Any] = {
    "tuple": (1, (2, 3)),
    "number, bool and None as keys": {1: "a", "1": "b", False: "c", None: "d", 1.5: "e", float("nan"): "f"},
    "int beyond 64 bits": [2**63, -(2**63) - 1, 10**400],
    "words for floats that are not finite": [float("nan"), float("inf"), float("-inf")],
    "one list in two places": [[shared := [1]], shared, {"k": shared}],
    "400 deep": nested(MAX_DEPTH),
    "lone surrogate": ["\ud800", "\udfff!"],
}

NOT_SERVED: dict[str, Any] = {
    "int subclass": WholeNumber(5),
    "enum": [Colour.RED],
    "named tuple": Pair(1, 2),
    "dict subclass": OrderedDict(a=1),
    "str subclass as a key": {type("Text", (str,), {})("k"): 1},
    "key of another type": {(1, 2): 3},
    "bytes": b"x",
    "set": {1},
    "int of more digits than Python writes": 10**5000,
    "401 deep": nested(MAX_DEPTH + 1),
    "cycle": self_containing(),
}


@pytest.mark.parametrize("value", SERVED.values(), ids=SERVED.keys())
def test_the_extension_spells_these_itself(value: Any) -> None:
    assert _native.encode_ascii(value) == json.dumps(value)


@pytest.mark.parametrize("value", NOT_SERVED.values(), ids=NOT_SERVED.keys())
def test_the_extension_leaves_these_to_json_dumps(value: Any) -> None:
    assert _native.encode_ascii(value) is None
    assert _native.encode_unicode(value) is None
    assert _native.encode_compact_sorted(value) is None


def test_readable_text_with_a_lone_surrogate_is_left_to_json_dumps() -> None:
    assert _native.encode_unicode("\ud800") is None
    assert encode_json_text("\ud800", ensure_ascii=False) == '"\ud800"'


def test_keys_that_are_not_all_text_are_sorted_by_json_dumps() -> None:
    assert _native.encode_compact_sorted({2: "b", 1: "a"}) is None
    assert encode_compact_sorted_json_text({2: "b", 1: "a"}) == '{"1":"a","2":"b"}'
    with pytest.raises(TypeError, match="not supported between instances"):
        encode_compact_sorted_json_text({1: "a", "b": 2})


def test_keys_sort_by_code_point_and_not_by_utf16() -> None:
    value = {"\U0001f600": 1, "\uffee": 2, "é": 3, "z": 4, "": 5}
    assert encode_compact_sorted_json_text(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert list(json.loads(encode_compact_sorted_json_text(value))) == ["", "z", "é", "\uffee", "\U0001f600"]


def test_refusals_are_those_of_json_dumps() -> None:
    with pytest.raises(TypeError, match="Object of type bytes is not JSON serializable"):
        encode_json_text({"data": b"x"})
    with pytest.raises(TypeError, match="keys must be str, int, float, bool or None, not tuple"):
        encode_json_text({(1, 2): 3})
    with pytest.raises(ValueError, match="Circular reference detected"):
        encode_json_text(self_containing())
    with pytest.raises(ValueError, match="Exceeds the limit"):
        encode_json_text(10**5000)


@pytest.mark.parametrize("encode", [encode for encode, _ in VARIANTS.values()], ids=VARIANTS.keys())
def test_a_value_too_deep_for_the_stack_is_refused(encode: Encoder) -> None:
    with pytest.raises(RecursionError):
        encode(nested(200_000))


def test_the_deepest_value_that_is_served_needs_little_stack() -> None:
    value = nested(MAX_DEPTH, with_dicts=True)
    texts: list[str | None] = []
    previous = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: texts.append(_native.encode_ascii(value)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(previous)
    assert texts == [json.dumps(value)]


def test_a_cycle_is_given_up_before_its_text_grows() -> None:
    """Nothing is kept of a cycle, so only time and memory show how often it was walked."""
    body = "x" * 2**20
    value: dict[str, Any] = {"body": body}
    value["self"] = {"inner": [value]}
    assert _native.encode_ascii(value) is None


@pytest.mark.parametrize(("encode", "oracle"), VARIANTS.values(), ids=VARIANTS.keys())
def test_text_of_any_size_leaves_no_trace_in_the_next(encode: Encoder, oracle: Encoder) -> None:
    values: list[Any] = ["a" * 300_000, "short", ["é" * 100_000], {}, ["\U0001f600" * 70_000], [1, "x"]]
    for value in values:
        assert encode(value) == oracle(value)


def test_a_value_that_other_threads_change_is_spelled_at_one_moment() -> None:
    value: dict[str, list[int]] = {"pair": [0, 0]}
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            value["pair"] = [number, number]
            value[f"key {number % 100}"] = [number] * (number % 50)
            value.pop(f"key {(number + 50) % 100}", None)

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            first, second = json.loads(encode_json_text(value))["pair"]
            assert first == second
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_containers_that_other_threads_grow_and_empty_are_spelled_whole() -> None:
    items: list[Any] = [1]
    members: dict[str, Any] = {"items": items}
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            items.extend(["x" * 20, {"k": [2**70]}] * 100)
            members.update({f"key {number}": items for number in range(20)})
            items.clear()
            for number in range(20):
                members.pop(f"key {number}", None)

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            shown: dict[str, list[Any]] = json.loads(encode_json_text(members))
            # All that was in one container at one moment was in the others, too.
            assert all(other == shown["items"] for other in shown.values())
            assert json.loads(encode_compact_sorted_json_text(items)) is not None
            assert encode_ui_frames([members]).endswith(b"\n\n")
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_missing_extension_says_how_to_build_it() -> None:
    script = (
        "import sys\n"
        "sys.modules['dex_agents._native'] = None\n"
        "try:\n"
        "    import dex_agents.codecs.json_text\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "make build" in result.stdout
    assert "pip install dex-agents-native" in result.stdout
