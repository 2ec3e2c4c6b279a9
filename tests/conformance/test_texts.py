"""The sentences of `dex_agents.texts` against their pinned spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dex_agents import texts


class Given(msgspec.Struct):
    text: str
    arguments: list[Any] | None = None


class Case(msgspec.Struct):
    name: str
    given: Given
    expect: str


class Vectors(msgspec.Struct):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "texts.json").read_bytes(), type=Vectors
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in VECTORS.cases])
def test_a_sentence_is_spelled_as_pinned(case: Case) -> None:
    text: Any = getattr(texts, case.given.text)
    if case.given.arguments is not None:
        text = text(*case.given.arguments)
    assert text == case.expect


def test_every_sentence_is_pinned() -> None:
    assert {case.given.text for case in VECTORS.cases} == set(texts.__all__)
