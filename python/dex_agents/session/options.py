"""What an application chooses for a session Flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from dex_agents.errors import InvalidInputError
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy

__all__ = ["AgentSessionOptions"]

_ONE_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class AgentSessionOptions:
    """Options of a session Flow; the same on every Worker of its Flow type.

    Attributes:
        tool_policies: By tool name; they win over a tool's own declaration.
        default_tool_effect: The effect of a tool that declares none.
        event_stream_capacity_bytes: How much of the live events is kept, over all sessions of the Flow type.
        model_call_timeout: Time for one attempt of a model call.
        tool_call_timeout: Time for one attempt of a tool call.
        cancel_grace: How long a cancelled turn waits for its running calls to end with a known result.

    Raises:
        InvalidInputError: A number is out of its range.
    """

    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict[str, ToolPolicy])
    default_tool_effect: ToolEffect = ToolEffect.UNCLASSIFIED
    event_stream_capacity_bytes: int = 64 * 1024 * 1024
    model_call_timeout: timedelta = timedelta(minutes=10)
    tool_call_timeout: timedelta = timedelta(hours=2)
    cancel_grace: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        """Check every number."""
        if self.event_stream_capacity_bytes < 1:
            raise InvalidInputError("event_stream_capacity_bytes", "must be at least 1")
        for name in ("model_call_timeout", "tool_call_timeout", "cancel_grace"):
            if getattr(self, name) < _ONE_SECOND:
                raise InvalidInputError(name, "must be at least one second, the unit of the engine")
