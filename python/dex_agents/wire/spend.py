"""What one model call consumed, as a spend limiter is told."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dex_agents.wire.usage import AgentUsage

__all__ = ["ModelCallPurpose", "SpendReport"]

ModelCallPurpose = Literal["answer", "summary"]
"""What a model call is for: the turn itself, or the summary of a context that became too long."""


class SpendReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model call that was made and answered.

    Attributes:
        call_id: Names the call for ever; a report that comes again has the same one, and another attempt,
            which is another call to be paid, has another.
        session_id: The session.
        turn_id: The turn.
        attempt: Which attempt of the Step made the call, from 1.
        purpose: What the call was for.
        usage: What it consumed.
        model: The model's name as the provider gave it, or `None`.
        provider: The provider's name, or `None`.
        session_settings: The session's settings as the call had them.
    """

    call_id: str
    session_id: str
    turn_id: str
    attempt: int
    purpose: ModelCallPurpose
    usage: AgentUsage
    model: str | None = None
    provider: str | None = None
    session_settings: dict[str, Any] = {}
