"""What a tool returned, as text."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from dex_agents.builtin_loop.tool_output import encode_tool_output
from dex_agents.errors import ToolExecutionError


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    ANN = "ann"


class OldName(str, enum.Enum):  # noqa: UP042 - its str() differs from its text
    BOB = "bob"


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


class Money(msgspec.Struct):
    cents: int


class Point(NamedTuple):
    x: int
    y: int


WRITABLE: list[Any] = [
    None,
    True,
    3,
    -0.0,
    1e16,
    2**70,
    [],
    {},
    {"a": [1, 2.5, None, "\u00e9\n"]},
    (1, (2,)),
    {1: "a", None: "b", False: "c", 1.5: "d"},
    Level.LOW,
    OrderedDict(b=1, a=2),
    Point(1, 2),
    {"text": "NaN and Infinity"},
    {"text": "\\ud800"},
]


@pytest.mark.parametrize("value", WRITABLE)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_value_is_written_as_json_dumps_writes_it(value: Any, ensure_ascii: bool) -> None:
    assert encode_tool_output(value, ensure_ascii=ensure_ascii) == json.dumps(
        value, ensure_ascii=ensure_ascii
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("\u4e16", "\u4e16"),
        ("a\ud99cb", "a\ufffdb"),
        (Name.ANN, "ann"),
        (OldName.BOB, "bob"),
    ],
)
def test_a_string_is_the_text_itself(text: str, expected: str) -> None:
    written = encode_tool_output(text, ensure_ascii=True)
    assert (written, type(written)) == (expected, str)


@pytest.mark.case("BR-087")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05Z"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (Decimal("1.10"), '"1.10"'),
        (Decimal("NaN"), '"NaN"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (b"hi", '"aGk="'),
        ({"x"}, '["x"]'),
        (Colour.RED, '"red"'),
        (Line("a", Decimal("2.50")), '{"sku": "a", "price": "2.50"}'),
        (Money(5), '{"cents": 5}'),
        ({"at": date(2026, 1, 2), 3: Money(1)}, '{"at": "2026-01-02", "3": {"cents": 1}}'),
    ],
)
def test_well_known_types_become_json_values(value: Any, expected: str) -> None:
    assert encode_tool_output(value, ensure_ascii=True) == expected


class Unsupported:
    pass


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def itself_in_a_dataclass() -> Line:
    line = Line("a", Decimal(1))
    line.__dict__["sku"] = line
    return line


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.case("BR-085")
@pytest.mark.case("BR-086")
@pytest.mark.case("BR-087")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": float("nan")}, "NaN"),
        (1e308 * 10, "Infinity"),
        ([-float("inf")], "-Infinity"),
        ({"t": "NaN", "n": [float("nan")]}, "NaN"),
        (Unsupported(), "Unsupported"),
        ({"a": [Unsupported()]}, "Unsupported"),
        ({(1, 2): 3}, "tuple"),
        (itself(), "ircular"),
        (itself_in_a_dataclass(), "contains itself or is nested too deeply"),
        (deep(), "nested too deeply"),
        ([10**5000], "digits"),
    ],
)
def test_a_value_that_json_has_not_fails_for_good_with_a_clear_text(value: Any, reason: str) -> None:
    with pytest.raises(ToolExecutionError) as caught:
        encode_tool_output(value, ensure_ascii=True)
    assert str(caught.value).startswith("the tool ran to its end, but its result cannot be written as JSON: ")
    assert reason in str(caught.value)


@pytest.mark.case("BR-089")
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_lone_surrogates_inside_a_value_are_replaced(ensure_ascii: bool) -> None:
    written = encode_tool_output({"\ud99c": ["a\udc00", "\U0001f600"]}, ensure_ascii=ensure_ascii)
    assert written == json.dumps({"\ufffd": ["a\ufffd", "\U0001f600"]}, ensure_ascii=ensure_ascii)


def test_keys_that_are_the_same_once_healed_fail_for_good() -> None:
    with pytest.raises(ToolExecutionError, match="a key appears twice"):
        encode_tool_output(dict.fromkeys(["\ud800", "\ud801"], 1), ensure_ascii=True)
