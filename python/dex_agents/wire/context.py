"""The context of a session: what stands for the part of the conversation that the model no longer reads."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = ["ContextSummary"]


class ContextSummary(msgspec.Struct, frozen=True):
    """A summary of everything up to some message; it takes the place of those messages in the model's input.

    Attributes:
        text: The summary; at most `limits.MAX_CONTEXT_SUMMARY_BYTES` as UTF-8.
        covered_through: The sequence number of the last message that it covers; it covers all before too.
        revision: From 1; each summary is made of the one before and of what came since.
        created_at: When it was stored.
    """

    text: str
    covered_through: int
    revision: int
    created_at: datetime
