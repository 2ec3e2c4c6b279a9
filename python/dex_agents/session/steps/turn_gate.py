"""Whether a turn was asked to cancel, as a Step sees it."""

from __future__ import annotations

from dex import Context

from dex_agents.session.persistence import TURN_GATE, get_stored

__all__ = ["is_cancelled"]


def is_cancelled(context: Context, turn_number: int) -> bool:
    """Whether the turn was asked to cancel before this Step method began."""
    cancelled = get_stored(TURN_GATE, context)
    return cancelled is not None and cancelled.number == turn_number
