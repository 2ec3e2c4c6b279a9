"""Cursors as text."""

from __future__ import annotations

import re

import pytest

from dex_agents.errors import InvalidInputError
from dex_agents.session.event_cursor import EventCursor


@pytest.mark.parametrize(
    "cursor", [EventCursor("17"), EventCursor(""), EventCursor("a/b:c#é", "RunModel-1", 2, 31)]
)
def test_a_cursor_comes_back_as_it_was_and_fits_into_a_url(cursor: EventCursor) -> None:
    text = cursor.encode()
    assert EventCursor.decode(text) == cursor
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)


@pytest.mark.parametrize("text", ["", "17", "é", "====", "eyJhIjoxfQ", "WyIxNyIsMV0", "a" * 1000])
def test_what_is_no_cursor_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        EventCursor.decode(text)
