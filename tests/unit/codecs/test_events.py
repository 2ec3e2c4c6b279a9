"""Events on the Stream."""

from __future__ import annotations

import pytest

from dex_agents.codecs.events import decode_events, encode_events
from dex_agents.errors import WireFormatError
from dex_agents.wire.events import ModelStarted, TextDelta


def test_events_come_back_as_they_were() -> None:
    events = [ModelStarted(seq=1, step="RunModel-1", attempt=1), TextDelta(seq=2, text="a\u2028\n")]
    assert decode_events(encode_events(events)) == events


def test_a_lone_surrogate_in_a_delta_is_replaced() -> None:
    (event,) = decode_events(encode_events([TextDelta(text="a\ud800b")]))
    assert isinstance(event, TextDelta)
    assert event.text == "a\ufffdb"


def test_an_event_of_a_newer_version_is_left_out_and_the_others_stay() -> None:
    message = '[{"type":"from_the_future","seq":1},{"type":"model_started","seq":2}]'
    assert [event.seq for event in decode_events(message)] == [2]


@pytest.mark.parametrize("message", ["{}", "nothing", '[{"seq":1}]'])
def test_what_is_no_list_of_events_is_refused(message: str) -> None:
    with pytest.raises(WireFormatError):
        decode_events(message)
