"""Cursors: a position between two events of a session, as text that is opaque to whoever keeps it."""

from __future__ import annotations

import base64
import binascii

import msgspec

from dex_agents.errors import InvalidInputError

__all__ = ["EventCursor"]


class EventCursor(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A position in the event Stream.

    Attributes:
        token: The Stream's own position after a message; empty for before the oldest one.
        step: The Step execution that wrote the next message, when some of its events lie before the position.
        attempt: Its attempt.
        seq: The last of those events.
    """

    token: str
    step: str = ""
    attempt: int = 0
    seq: int = 0

    def encode(self) -> str:
        """Return the cursor as text of letters, digits, `-` and `_`."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> EventCursor:
        """Read a cursor.

        Raises:
            InvalidInputError: The text is no cursor.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            return msgspec.json.decode(base64.b64decode(padded, "-_", validate=True), type=cls)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            raise InvalidInputError("cursor", "is not a cursor of this session's events") from None
