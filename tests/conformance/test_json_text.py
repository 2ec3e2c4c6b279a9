"""`conformance/json_text.json` through the seam."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.oracles.json_text import VARIANTS


class Given(msgspec.Struct, forbid_unknown_fields=True):
    value: Any = msgspec.UNSET
    integer: str | msgspec.UnsetType = msgspec.UNSET
    float_: str | msgspec.UnsetType = msgspec.field(name="float", default=msgspec.UNSET)
    code_points: list[int] | msgspec.UnsetType = msgspec.UNSET
    members: list[tuple[Any, Any]] | msgspec.UnsetType = msgspec.UNSET


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    given: Given
    expect: dict[str, str]


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "json_text.json").read_bytes(), type=Vectors
)


def given_value(given: Given) -> Any:
    if given.integer is not msgspec.UNSET:
        return int(given.integer)
    if given.float_ is not msgspec.UNSET:
        return float(given.float_)
    if given.code_points is not msgspec.UNSET:
        return "".join(map(chr, given.code_points))
    if given.members is not msgspec.UNSET:
        return dict(given.members)
    assert given.value is not msgspec.UNSET
    return given.value


@pytest.mark.parametrize(
    ("case", "variant", "text"),
    [
        pytest.param(case, variant, text, id=f"{case.name}-{variant}", marks=pytest.mark.case(case.name))
        for case in VECTORS.cases
        for variant, text in case.expect.items()
    ],
)
def test_a_value_has_the_pinned_text(case: Case, variant: str, text: str) -> None:
    encode, oracle = VARIANTS[variant]
    value = given_value(case.given)
    assert encode(value) == text
    assert oracle(value) == text
