"""`token_estimate` against its oracle, over text of every kind and weights of every size."""

from __future__ import annotations

from importlib import resources

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents._native import TOKEN_FEATURE_NAMES, TokenWeights
from dex_agents.builtin_loop.contract import ModelRequest, ModelUserTextItem
from dex_agents.builtin_loop.token_estimate import (
    TokenizerFamily,
    build_input_token_anchor,
    estimate_input_tokens,
    estimate_text_tokens,
)
from tests.oracles.token_estimate import RANGES, count_features, weigh_text


class Weights(msgspec.Struct):
    families: dict[TokenizerFamily, dict[str, int]]


FAMILIES = msgspec.json.decode(
    resources.files("dex_agents.builtin_loop").joinpath("token_weights.json").read_bytes(), type=Weights
).families

# Both sides of every bound, because a range that is off by one shows nowhere else.
bounds = sorted(
    {code + step for pairs in RANGES.values() for pair in pairs for code in pair for step in (-1, 0, 1)}
)
characters = st.one_of(
    st.characters(codec="ascii"),
    st.characters(max_codepoint=0xFF),
    st.sampled_from("abc XYZ 019 \t\n\r.,;-_/\\\"'{}()éßłжі你か한"),
    st.sampled_from(bounds).map(chr),
    st.characters(exclude_categories=()),
)
runs = st.tuples(characters, st.integers(1, 12)).map(lambda run: run[0] * run[1])
texts = st.one_of(
    st.text(characters, max_size=80),
    # Long enough for whole blocks of one-byte text and what is left behind them.
    st.lists(st.one_of(runs, st.text(st.characters(max_codepoint=0xFF))), max_size=80).map("".join),
)
weight_rows = st.lists(
    st.integers(0, 2**32 - 1), min_size=len(TOKEN_FEATURE_NAMES), max_size=len(TOKEN_FEATURE_NAMES)
).map(tuple)


@given(text=texts, weights=weight_rows)
def test_a_text_weighs_what_the_oracle_says(text: str, weights: tuple[int, ...]) -> None:
    named = dict(zip(TOKEN_FEATURE_NAMES, weights, strict=True))
    assert TokenWeights(weights).estimate_millitokens((text,)) == weigh_text(text, named)


@pytest.mark.parametrize("family", FAMILIES)
@given(text=texts)
def test_an_estimate_is_the_shipped_weight_rounded_up_to_whole_tokens(
    family: TokenizerFamily, text: str
) -> None:
    assert estimate_text_tokens(text, family=family) == -(-weigh_text(text, FAMILIES[family]) // 1_000)


@given(several=st.lists(texts, max_size=5), weights=weight_rows)
def test_texts_weigh_together_what_they_weigh_alone(several: list[str], weights: tuple[int, ...]) -> None:
    alone = sum(TokenWeights(weights).estimate_millitokens((text,)) for text in several)
    assert TokenWeights(weights).estimate_millitokens(tuple(several)) == alone


@given(text=texts, feature=st.integers(0, len(TOKEN_FEATURE_NAMES) - 1))
def test_each_count_is_the_oracles(text: str, feature: int) -> None:
    weights = tuple(int(index == feature) for index in range(len(TOKEN_FEATURE_NAMES)))
    assert (
        TokenWeights(weights).estimate_millitokens((text,))
        == count_features(text)[TOKEN_FEATURE_NAMES[feature]]
    )


@given(text=texts, more=texts)
def test_text_never_makes_an_estimate_much_smaller(text: str, more: str) -> None:
    # Where two texts meet, one start may be lost.
    assert estimate_text_tokens(text + more) + 4 >= max(
        estimate_text_tokens(text), estimate_text_tokens(more)
    )


@given(text=texts, more=texts, reported=st.integers(1, 2**40))
def test_a_request_that_grew_is_the_reported_count_and_what_was_added(
    text: str, more: str, reported: int
) -> None:
    first = ModelRequest("", (ModelUserTextItem(text),))
    second = ModelRequest("", (ModelUserTextItem(text), ModelUserTextItem(more)))
    anchor = build_input_token_anchor(first, reported)
    added = estimate_input_tokens(second) - estimate_input_tokens(first)
    assert estimate_input_tokens(first, anchor=anchor) == reported
    assert estimate_input_tokens(second, anchor=anchor) == reported + added
