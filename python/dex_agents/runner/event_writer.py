"""How a runner or a tool speaks to live viewers while its Step runs."""

from __future__ import annotations

from typing import Protocol

__all__ = ["AgentEventWriter"]


class AgentEventWriter(Protocol):
    """Writes live events, bound to one Step attempt.

    Writing never waits and never fails a Step: events are best effort and the snapshot is the truth. Adjacent
    deltas are joined before they leave the Worker.

    Durability:
        A retried attempt writes its events again, marked with the higher attempt number.
    """

    def write_text_delta(self, text: str) -> None:
        """Add text to the answer that is being given; empty text is ignored."""
        ...

    def write_reasoning_delta(self, text: str) -> None:
        """Add text to the visible reasoning; empty text is ignored."""
        ...

    def write_tool_progress(self, tool_call_id: str, text: str) -> None:
        """Report how a tool call is getting on."""
        ...
