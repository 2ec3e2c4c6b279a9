"""`conformance/ui_frames.json` through the seam."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dex_agents import limits
from dex_agents.ui_stream import encode_ui_frames
from tests.oracles.event_stream import read_events
from tests.oracles.ui_frames import frames, json_line


class Given(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    delta_code_points: list[list[int]] | msgspec.UnsetType = msgspec.UNSET
    event_ids: list[str] | None = None
    max_joined_bytes: int = 32_768


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    stream: str


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    given: Given
    expect: Expected


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "ui_frames.json").read_bytes(), type=Vectors
)


def given_parts(given: Given) -> list[dict[str, Any]]:
    if given.parts is not msgspec.UNSET:
        return given.parts
    assert given.delta_code_points is not msgspec.UNSET
    texts = ("".join(map(chr, code_points)) for code_points in given.delta_code_points)
    return [{"type": "text-delta", "id": "1", "delta": text} for text in texts]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=pytest.mark.case(case.name)) for case in VECTORS.cases]
)
def test_a_batch_has_the_pinned_stream(case: Case) -> None:
    parts = given_parts(case.given)
    bound = case.given.max_joined_bytes
    stream = encode_ui_frames(parts, event_ids=case.given.event_ids, max_joined_bytes=bound)
    assert stream == case.expect.stream.encode()
    assert frames(parts, event_ids=case.given.event_ids, max_joined_bytes=bound) == stream


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_a_pinned_stream_is_read_alike_however_it_is_cut(step: int) -> None:
    stream = "".join(case.expect.stream for case in VECTORS.cases).encode()
    events = read_events(stream, step=step)
    assert events == read_events(stream, step=len(stream))
    apart = [event for case in VECTORS.cases for event in read_events(case.expect.stream.encode())]
    assert [event.data for event in events] == [event.data for event in apart]


def test_each_part_that_joins_nothing_is_one_event_with_its_own_value() -> None:
    for case in VECTORS.cases:
        parts = given_parts(case.given)
        events = read_events(encode_ui_frames(parts, max_joined_bytes=0))
        assert len(events) == len(parts) or case.name == "an empty delta joins the others"
        if len(events) == len(parts):
            assert [event.data for event in events] == [json_line(part) for part in parts]


def test_the_vectors_assume_the_bound_that_ships() -> None:
    assert Given().max_joined_bytes == limits.MAX_JOINED_DELTA_BYTES
