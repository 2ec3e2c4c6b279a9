"""Stored items and the requests built from them, against the pinned vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dex_agents.builtin_loop.input_items import build_input_items
from dex_agents.builtin_loop.stored_items import StoredItem, encode_stored_item
from dex_agents.wire.messages import FrameworkMessage


class Given(msgspec.Struct):
    write: StoredItem | None = None
    messages: list[FrameworkMessage] | None = None
    provider: str = ""
    api: str = ""


class Expect(msgspec.Struct):
    framework_item: str | None = None
    items: list[dict[str, Any]] | None = None


class Case(msgspec.Struct):
    name: str
    given: Given
    expect: Expect


class Vectors(msgspec.Struct):
    about: str
    cases: list[Case]


# The vectors are indented; native output is compared byte for byte, so it is made compact on the way in.
VECTORS = msgspec.json.decode(
    msgspec.json.format(
        (Path(__file__).parents[2] / "conformance" / "input_items.json").read_bytes(), indent=-1
    ),
    type=Vectors,
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in VECTORS.cases if case.given.write is not None]
)
def test_an_item_is_written_as_pinned(case: Case) -> None:
    assert case.given.write is not None
    assert encode_stored_item(case.given.write) == case.expect.framework_item


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in VECTORS.cases if case.given.messages is not None]
)
def test_a_request_is_built_as_pinned(case: Case) -> None:
    items = build_input_items(case.given.messages or [], provider=case.given.provider, api=case.given.api)
    assert msgspec.json.decode(msgspec.json.encode(items)) == case.expect.items


def test_every_vector_is_used() -> None:
    assert all((case.given.write is None) != (case.given.messages is None) for case in VECTORS.cases)
