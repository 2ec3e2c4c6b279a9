"""Interrupts: what a session waits on a person for."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["AgentInterrupt", "InterruptKind"]

InterruptKind = Literal["approval"]


class AgentInterrupt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One open question to a person, with all that is needed to show it.

    Attributes:
        interrupt_id: Names it for `resolve_interrupt`; never used twice in a session.
        kind: What is asked.
        turn_id: The turn that waits.
        tool_call_id: The call that waits.
        tool_name: The tool that would run.
        effect: What running it means.
        arguments: The model's original text.
        effective_arguments: What would run, as JSON text, when it differs from `arguments`.
        opened_at: When the question was committed.
    """

    interrupt_id: str
    kind: InterruptKind
    turn_id: str
    tool_call_id: str
    tool_name: str
    effect: ToolEffect
    arguments: str
    opened_at: datetime
    effective_arguments: str | None = None
