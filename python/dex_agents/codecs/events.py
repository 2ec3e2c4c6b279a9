"""Events as they travel on the session's Stream: one JSON array per Stream message.

A Stream message holds the events that one Step attempt wrote within a short time, so that a viewer pays one
read for many deltas.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import WireFormatError
from dex_agents.wire.events import AgentEvent

__all__ = ["decode_events", "encode_events"]

_encoder = msgspec.json.Encoder()
_items_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_event_decoder: msgspec.json.Decoder[AgentEvent] = msgspec.json.Decoder(AgentEvent)
_tag_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode_events(events: Sequence[AgentEvent]) -> str:
    """Return the Stream message for some events; a lone surrogate in a delta becomes U+FFFD."""
    try:
        return _encoder.encode(events).decode()
    except UnicodeEncodeError:
        return _encoder.encode([_heal(event) for event in events]).decode()


def decode_events(message: str) -> list[AgentEvent]:
    """Return the events of a Stream message, without those of types that only a newer version knows.

    Raises:
        WireFormatError: The message is not a JSON array of events.
    """
    try:
        items = _items_decoder.decode(message)
    except msgspec.DecodeError as error:
        raise WireFormatError("AgentEvent", str(error)) from error
    events: list[AgentEvent] = []
    for item in items:
        try:
            events.append(_event_decoder.decode(item))
        except msgspec.ValidationError:
            # Events are best effort: a viewer that is older than the Worker skips what it cannot name.
            if "type" not in _tag_decoder.decode(item):
                raise WireFormatError("AgentEvent", "the type is missing", field="type") from None
    return events


def _heal(event: AgentEvent) -> AgentEvent:
    healed = {
        name: replace_lone_surrogates(value)
        for name in event.__struct_fields__
        if isinstance(value := getattr(event, name), str)
    }
    return msgspec.structs.replace(event, **healed)
