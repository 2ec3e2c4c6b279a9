"""`conformance/token_estimate.json` through the seam, and through the oracle where it counts."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from dex_agents._native import TOKEN_FEATURE_NAMES, TokenWeights
from dex_agents.builtin_loop.contract import ModelRequest, ModelUserTextItem
from dex_agents.builtin_loop.token_estimate import (
    TokenizerFamily,
    estimate_input_tokens,
    tokenizer_family_of,
)
from tests.oracles.token_estimate import count_features


class Given(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    code_points: list[int] = []
    model: str | None = None
    images: int = 0


class Bounds(msgspec.Struct, forbid_unknown_fields=True):
    at_least: int
    at_most: int


class Expect(msgspec.Struct, forbid_unknown_fields=True):
    features: dict[str, int] | None = None
    family: TokenizerFamily | None = None
    tokens: Bounds | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    given: Given
    expect: Expect


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "token_estimate.json").read_bytes(), type=Vectors
)


def native_counts(text: str) -> dict[str, int]:
    width = range(len(TOKEN_FEATURE_NAMES))
    counts = {
        name: TokenWeights([int(place == index) for place in width]).estimate_millitokens((text,))
        for index, name in enumerate(TOKEN_FEATURE_NAMES)
    }
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.case(case.name)) for case in VECTORS.cases],
)
def test_a_vector_holds(case: Case) -> None:
    given, expect = case.given, case.expect
    if expect.features is not None:
        text = given.text or "".join(map(chr, given.code_points))
        assert native_counts(text) == dict(count_features(text)) == expect.features
    elif expect.family is not None:
        assert tokenizer_family_of(given.model) == expect.family
    else:
        assert expect.tokens is not None
        request = ModelRequest("", (ModelUserTextItem(given.text),))
        for family in get_args(TokenizerFamily):
            tokens = estimate_input_tokens(request, family=family, images=given.images)
            assert expect.tokens.at_least <= tokens <= expect.tokens.at_most
