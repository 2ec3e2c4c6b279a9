"""Strict reading of JSON objects against its oracle and against `json.loads`, over text of every kind."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dex_agents.builtin_loop.json_values import is_json_array, is_json_object
from dex_agents.codecs.json_text import JsonProblem, ReadJsonObject, read_json_object
from tests.oracles.json_objects import oracle_read

DEPTH = 5

# Whole tokens, their beginnings, and characters that a reader may treat as one of another kind.
TOKENS = [
    *'{}[]:,"\\ \t\n\r/u0129-+.eEtfn\x00\x1f\x7f\xa0\ufeff\u2028\u4f60\U0001f600',
    *('"a":', '"b":', '{"a":', '"', '""', '"\\', "[[", "]]", "{}", "[]", "[1", ",1", '},"a":{'),
    *("true", "tru", "false", "null", "nul", "NaN", "Na", "Infinity", "-Infinity", "-Inf", "-NaN"),
    *("0", "-0", "01", "1.5", "1.", ".5", "1e5", "1E+05", "1e", "1e-", "-", "1e999", "-1e999", "1e-999"),
    *(
        "9007199254740993",
        "18446744073709551616",
        "1" + "0" * 400,
        "0.1",
        "2.5e-324",
        "1.7976931348623159e308",
    ),
    *(
        "\\n",
        "\\/",
        "\\u0041",
        "\\u00",
        "\\u00e9",
        "\\ud83d",
        "\\ude00",
        "\\uD83D\\uDE00",
        "\\ud83d\\u",
        "\\x",
    ),
]
tokens = st.sampled_from(TOKENS)
token_texts = st.lists(tokens, max_size=24).map("".join)

characters = st.one_of(
    st.characters(codec="ascii"),
    st.sampled_from('"\\\x7f\x80\u2028\ufeff\ufffd\ud83d\ude00\ud800\udfff\U0001f600'),
    st.characters(exclude_categories=()),
)
strings = st.text(characters, max_size=12)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), strings, st.sampled_from([2**63, -(2**64), 10**300])
)


def around(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(values, max_size=4), st.dictionaries(strings, values, max_size=4))


objects = st.dictionaries(strings, st.recursive(leaves, around, max_leaves=12), max_size=5)
layouts = st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", "\t:\r\n ")])


def spell(value: Any, separators: tuple[str, str], indent: int | None, ascii_only: bool) -> str:
    text = json.dumps(value, separators=separators, indent=indent, ensure_ascii=ascii_only)
    return text.encode(errors="replace").decode()


object_texts = st.builds(spell, objects, layouts, st.sampled_from([None, None, 1]), st.booleans())


@st.composite
def changed_texts(draw: st.DrawFn) -> str:
    text = draw(object_texts)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 1, 2, 9, 10_000])))
        text = text[:start] + draw(st.one_of(st.just(""), token_texts, tokens)) + text[end:]
    return text


any_text = st.one_of(
    object_texts, changed_texts(), token_texts, token_texts.map(lambda inside: '{"a":' + inside)
)


def same(one: Any, other: Any) -> bool:
    """Whether values are equal and of equal types, minus zero apart from zero."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if is_json_object(one):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if is_json_array(one):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


class RefusedError(Exception):
    pass


def refuse(_: str) -> Any:
    raise RefusedError


def finite(literal: str) -> float:
    return float(literal) if math.isfinite(float(literal)) else refuse(literal)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise RefusedError
    return members


def is_within(value: Any, depth: int) -> bool:
    if is_json_object(value):
        children = list(value.values())
    elif is_json_array(value):
        children = value
    else:
        return True
    return depth > 0 and all(is_within(child, depth - 1) for child in children)


def loads_strictly(text: str) -> Any:
    """What `json.loads` makes of a text, or `None` where an object cannot be read strictly."""
    try:
        value = json.loads(text, object_pairs_hook=distinct, parse_constant=refuse, parse_float=finite)
    except (ValueError, RefusedError):
        return None
    return value if is_json_object(value) and is_within(value, DEPTH) else None


@pytest.mark.requirement("arguments-strict")
@given(text=any_text)
@example(text="")
@example(text='{"a":"\\u1"}')
@example(text='{"a":"\\u\\u1')
@example(text='{"a":"\\\\u1x')
@example(text='{"a":"\\ud83d\\u12"')
def test_a_text_has_the_value_or_the_problem_that_the_oracle_finds(text: str) -> None:
    found, expected = read_json_object(text, max_depth=DEPTH), oracle_read(text, max_depth=DEPTH)
    if isinstance(expected, JsonProblem):
        assert found == expected
    else:
        assert isinstance(found, ReadJsonObject)
        assert found.healed == expected.healed
        assert same(found.value, expected.value)


@given(text=any_text)
def test_what_is_read_is_what_json_loads_reads(text: str) -> None:
    found, loaded = read_json_object(text, max_depth=DEPTH), loads_strictly(text)
    if isinstance(found, JsonProblem):
        # Two keys that are apart only by lone surrogates are one key once those are healed.
        assert loaded is None or (found.kind == "repeated_key" and "\ufffd" in (found.key or ""))
    elif not found.healed:
        assert same(found.value, loaded)
    else:
        assert loaded is not None


@given(literal=st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_numbers_are_those_of_python(literal: str) -> None:
    found = read_json_object(f'{{"a":{literal}}}', max_depth=1)
    expected = json.loads(literal)
    if isinstance(expected, float) and math.isinf(expected):
        assert found == JsonProblem("number_out_of_range", 1, 6, None)
    else:
        assert isinstance(found, ReadJsonObject)
        assert same(found.value, {"a": expected})


@pytest.mark.parametrize("digits", [4299, 4300, 4301, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("end", ["}", ".5}", "e5}", ".x"])
def test_integers_have_as_many_digits_as_python_reads(digits: int, sign: str, end: str) -> None:
    text = '{"a":' + sign + "1" * digits + end
    assert read_json_object(text, max_depth=1) == oracle_read(text, max_depth=1)
