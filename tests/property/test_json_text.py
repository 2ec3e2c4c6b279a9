"""`json_text` against `json.dumps`, over values of every kind that either of them can meet."""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.json_text import VARIANTS, Encoder

Outcome = tuple[str, str]


class WholeNumber(int):
    def __repr__(self) -> str:
        return "a subclass must not be asked how it looks"


class Fraction(float):
    def __repr__(self) -> str:
        return "a subclass must not be asked how it looks"


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 3


class Weight(float, enum.Enum):
    HEAVY = 1.5


class Name(enum.StrEnum):
    BEE = "bee"


class Pair(NamedTuple):
    first: int
    second: int


# Surrogates, too: JSON text that came from elsewhere may hold lone ones.
characters = st.one_of(
    st.characters(codec="ascii"),
    st.characters(min_codepoint=0x20, max_codepoint=0x7E),
    st.sampled_from('"\\\x00\x08\t\n\x0c\r\x1f\x7f\x80\xff\u2028\ud800\udfff\uffff\U00010000\U0010ffff'),
    st.characters(exclude_categories=()),
)
texts = st.one_of(st.text(characters, max_size=80), st.text(st.characters(codec="ascii"), max_size=80))
integers = st.one_of(
    st.integers(), st.integers(-(2**65), 2**65), st.sampled_from([2**63 - 1, 2**63, -(2**63), 10**400])
)


def float_of_bits(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


# Neighbours of 2**49 have quarters, so that two shortest spellings can be equally near.
tied_floats = st.integers(2**49, 2**50).flatmap(
    lambda whole: st.sampled_from([whole + quarter for quarter in (0.25, 0.5, 0.75)])
)
floats = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(float_of_bits),
    st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
    tied_floats,
)
plain_leaves = st.one_of(st.none(), st.booleans(), integers, floats, texts)
odd_leaves = st.one_of(
    st.sampled_from([Colour.RED, Weight.HEAVY, Name.BEE, b"bytes", Decimal("1.5"), frozenset({1}), 1j]),
    st.integers().map(WholeNumber),
    st.floats().map(Fraction),
    texts.map(Text),
)
plain_keys = st.one_of(texts, st.none(), st.booleans(), st.integers(), st.floats())
odd_keys = st.one_of(
    st.sampled_from([Colour.RED, Weight.HEAVY, Name.BEE, b"bytes", (1, 2)]), texts.map(Text), plain_keys
)


def containers(keys: st.SearchStrategy[Any]) -> Callable[[st.SearchStrategy[Any]], st.SearchStrategy[Any]]:
    def around(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(values, max_size=6)
        dicts = st.dictionaries(keys, values, max_size=6)
        return st.one_of(lists, dicts, lists.map(tuple), dicts.map(OrderedDict[Any, Any]))

    return around


plain_values = st.recursive(plain_leaves, containers(texts), max_leaves=30)
mixed_values = st.recursive(st.one_of(plain_leaves, odd_leaves), containers(odd_keys), max_leaves=30)


def outcome(encode: Encoder, value: Any) -> Outcome:
    try:
        return "text", encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return type(error).__name__, str(error)


each_variant = pytest.mark.parametrize(("encode", "oracle"), VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
@given(value=plain_values)
def test_json_values_are_spelled_as_json_dumps_spells_them(
    encode: Encoder, oracle: Encoder, value: Any
) -> None:
    assert outcome(encode, value) == outcome(oracle, value)


@each_variant
@given(value=mixed_values)
def test_any_other_value_has_the_text_or_the_error_of_json_dumps(
    encode: Encoder, oracle: Encoder, value: Any
) -> None:
    assert outcome(encode, value) == outcome(oracle, value)


@each_variant
@given(text=texts)
def test_strings_are_spelled_as_json_dumps_spells_them(encode: Encoder, oracle: Encoder, text: str) -> None:
    assert encode(text) == oracle(text)


@each_variant
@given(value=floats)
def test_floats_are_spelled_as_json_dumps_spells_them(encode: Encoder, oracle: Encoder, value: float) -> None:
    assert encode(value) == oracle(value)


@each_variant
@given(seed=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_a_value_that_contains_itself_is_refused_as_json_dumps_refuses_it(
    encode: Encoder, oracle: Encoder, seed: list[int]
) -> None:
    root: list[Any] = []
    branch: Any = root
    for kind in seed:
        inner: list[Any] = []
        branch.append({"key": inner} if kind % 2 else inner)
        branch = inner
    branch.append(root)
    expected = ("ValueError", "Circular reference detected")
    assert outcome(encode, root) == outcome(oracle, root) == expected
