"""`ui_frames` against its oracle and against readers of event streams, over any text and any cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.ui_stream import encode_ui_frames
from tests.oracles.event_stream import read_events
from tests.oracles.ui_frames import DELTA_MEMBERS, frames, healed_text

# Whatever any reader might take for a line end, what JSON escapes, and both halves of a pair.
characters = st.one_of(
    st.characters(codec="ascii"),
    st.sampled_from('\r\n\v\f\x00\x1c\x1d\x1e\x7f\x80\x84\x85\x86\u2027\u2028\u2029\u202a\ufeff\ufffd:"\\ '),
    st.sampled_from("\ud83d\ude00\ud800\udbff\udc00\udfff\ue000\U0001f600\U0010ffff"),
    st.characters(exclude_categories=()),
)
texts = st.one_of(st.text(characters, max_size=60), st.text(st.characters(codec="ascii"), max_size=60))
owners = st.one_of(st.sampled_from(["1", "2", "\ud800", "\udfff"]), texts)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=4),
    ),
    max_leaves=12,
)


def delta_of(kind: str, owner: str, text: str) -> dict[str, Any]:
    return dict(zip(DELTA_MEMBERS[kind], (kind, owner, text), strict=True))


deltas = st.builds(delta_of, st.sampled_from(list(DELTA_MEMBERS)), owners, texts)
text_deltas = st.builds(delta_of, st.just("text-delta"), st.just("1"), texts)


def almost_a_delta(text: str, odd: Any, which: int) -> dict[str, Any]:
    part = delta_of("text-delta", "1", text)
    if which == 0:
        return dict(reversed(part.items()))
    if which == 1:
        return {**part, "providerMetadata": {"a": odd}}
    return {**part, "delta": odd} if which == 2 else {**part, "type": "text-deltas"}


near_deltas = st.builds(almost_a_delta, texts, values, st.integers(0, 3))
objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(texts, values, max_size=5)
parts = st.one_of(text_deltas, deltas, near_deltas, objects)
batches = st.lists(parts, max_size=12)
bounds = st.one_of(st.integers(0, 120), st.just(32 * 1024))
event_ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=20)


@given(batch=batches, bound=bounds)
def test_a_batch_has_the_frames_of_the_oracle(batch: list[dict[str, Any]], bound: int) -> None:
    assert encode_ui_frames(batch, max_joined_bytes=bound) == frames(batch, max_joined_bytes=bound)


@given(batch=st.lists(st.tuples(parts, event_ids), max_size=12), bound=bounds)
def test_frames_with_event_ids_are_those_of_the_oracle(
    batch: list[tuple[dict[str, Any], str]], bound: int
) -> None:
    given_parts, ids = [part for part, _ in batch], [event_id for _, event_id in batch]
    written = encode_ui_frames(given_parts, event_ids=ids, max_joined_bytes=bound)
    assert written == frames(given_parts, event_ids=ids, max_joined_bytes=bound)


@pytest.mark.requirement("ui-frames-any-text")
@given(batch=st.lists(text_deltas, max_size=12), bound=bounds, step=st.integers(1, 9))
def test_a_reader_that_is_fed_pieces_folds_the_text_that_was_given(
    batch: list[dict[str, Any]], bound: int, step: int
) -> None:
    events = read_events(encode_ui_frames(batch, max_joined_bytes=bound), step=step)
    folded = "".join(json.loads(event.data)["delta"] for event in events)
    assert folded == "".join(healed_text(part["delta"]) for part in batch)


@pytest.mark.requirement("ui-frames-any-text")
@given(batch=batches)
def test_every_idea_of_lines_finds_the_same_events(batch: list[dict[str, Any]]) -> None:
    stream = encode_ui_frames(batch, max_joined_bytes=0)
    by_the_standard = [event.data for event in read_events(stream)]
    by_python = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line]
    assert by_the_standard == by_python
    assert all(json.loads(data) is not None for data in by_python)
    assert len(by_python) <= len(batch)


@pytest.mark.requirement("ui-frames-resume")
@given(batch=st.lists(st.tuples(text_deltas, event_ids), max_size=10), bound=bounds)
def test_going_on_from_any_event_misses_nothing_and_repeats_nothing(
    batch: list[tuple[dict[str, Any], str]], bound: int
) -> None:
    given_parts = [part for part, _ in batch]
    ids = [f"{index} {event_id}" for index, (_, event_id) in enumerate(batch)]
    whole = "".join(healed_text(part["delta"]) for part in given_parts)
    read = ""
    for event in read_events(encode_ui_frames(given_parts, event_ids=ids, max_joined_bytes=bound)):
        read += json.loads(event.data)["delta"]
        rest = given_parts[ids.index(event.last_event_id) + 1 :]
        again = read_events(encode_ui_frames(rest, max_joined_bytes=bound))
        assert read + "".join(json.loads(other.data)["delta"] for other in again) == whole
