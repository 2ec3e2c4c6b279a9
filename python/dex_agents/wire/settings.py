"""Session settings: what an application lets a session carry along for its runner."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["SessionSettings"]


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings of a session as they are now; everybody who may read the session sees them.

    Attributes:
        values: A JSON object.
        revision: Counts the updates, from 0 for what the session started with.
    """

    values: dict[str, Any]
    revision: int = 0
