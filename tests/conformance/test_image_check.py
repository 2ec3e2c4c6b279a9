"""`conformance/image_check.json` through the seam."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dex_agents.media.image_check import ImageCheck, check_image, check_images
from tests.oracles.image_check import oracle_check


class Given(msgspec.Struct, forbid_unknown_fields=True):
    hex: list[str]


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    given: Given
    expect: ImageCheck


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "image_check.json").read_bytes(), type=Vectors
)


def given_bytes(case: Case) -> bytes:
    return b"".join(map(bytes.fromhex, case.given.hex))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.case(case.name)) for case in VECTORS.cases],
)
def test_bytes_are_checked_as_pinned(case: Case) -> None:
    data = given_bytes(case)
    assert check_image(data) == case.expect
    assert oracle_check(data) == case.expect


def test_all_of_them_at_once_are_checked_as_pinned() -> None:
    assert check_images(map(given_bytes, VECTORS.cases)) == [case.expect for case in VECTORS.cases]
