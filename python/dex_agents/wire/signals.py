"""What travels on a session's Channels, and the receipts that make a command take effect once."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dex_agents.wire.tool_calls import AgentToolCall, Answer, ToolApproval

__all__ = [
    "CancelledTurn",
    "CommandReceipt",
    "EarlierWrite",
    "FinishedToolCall",
    "SettledOutcome",
    "ToolDecision",
    "WakeUp",
]


class CancelledTurn(msgspec.Struct, frozen=True):
    """The latest turn that was asked to cancel.

    Attributes:
        number: The turn.
        request_id: Names the call of the client that took effect.
    """

    number: int
    request_id: str


class ToolDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ends what a call waits on.

    Attributes:
        approval: What a person decided about the call, or `None`.
        effective_arguments: The JSON text to run instead, when a person changed it.
        failed_write_id: The earlier write because of which the question fell away.
        answers: What a person answered, by question ID.
        steered: Whether a steering message ended the wait.
    """

    approval: ToolApproval | None = None
    effective_arguments: str | None = None
    failed_write_id: str | None = None
    answers: dict[str, Answer] | None = None
    steered: bool = False


class EarlierWrite(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tells an ordered write how the one before it ended.

    Attributes:
        failed_write_id: The write that did not succeed, or `None` when all earlier ones did.
    """

    failed_write_id: str | None = None


class FinishedToolCall(msgspec.Struct, frozen=True):
    """Counts one call of a response as final.

    Attributes:
        tool_call_id: The call.
    """

    tool_call_id: str


class CommandReceipt(msgspec.Struct, frozen=True):
    """Remembers that a command took effect.

    Attributes:
        request_id: Names the call of the client that took effect, so that its own repeat is told so.
        accepted_at: When.
    """

    request_id: str
    accepted_at: datetime


class SettledOutcome(msgspec.Struct, frozen=True):
    """Tells the model, before its next call, that an outcome is known.

    Attributes:
        tool_call: The record as settled.
    """

    tool_call: AgentToolCall


class WakeUp(msgspec.Struct, frozen=True):
    """Tells an idle session to look at its inbox, and whether it was asked to end."""
