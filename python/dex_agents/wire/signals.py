"""What travels on a session's Channels, and the receipts that make a command take effect once."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.tool_calls import AgentToolCall, Answer, ToolApproval

__all__ = [
    "CancelledTurn",
    "CommandReceipt",
    "FinishedToolCall",
    "IdleToken",
    "InboxItem",
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
    """Ends what a call waits on; one without anything set says that the earlier write has succeeded.

    Attributes:
        approval: What a person decided about the call, or `None`.
        effective_arguments: The JSON text to run instead, when a person changed it.
        failed_write_id: The earlier write that did not succeed, because of which this one will not run.
        answers: What a person answered, by question ID.
        steered: Whether a steering message ended the wait.
    """

    approval: ToolApproval | None = None
    effective_arguments: str | None = None
    failed_write_id: str | None = None
    answers: dict[str, Answer] | None = None
    steered: bool = False


class FinishedToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts one call of a response as final.

    Attributes:
        tool_call_id: The call.
    """

    tool_call_id: str = ""


class CommandReceipt(msgspec.Struct, frozen=True):
    """Remembers that a command took effect.

    Attributes:
        request_id: Names the call of the client that took effect, so that its own repeat is told so.
        accepted_at: When.
    """

    request_id: str
    accepted_at: datetime


class InboxItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing in a session's inbox; the one field that is set says what.

    Attributes:
        message: A message of the user.
        settled: An outcome that is known now, for the model to learn before its next call.
        running_turn: The token of the turn with this number: it is there while the turn runs.
    """

    message: QueuedMessage | None = None
    settled: AgentToolCall | None = None
    running_turn: int | None = None


class WakeUp(msgspec.Struct, frozen=True):
    """Asks for a look at the inbox, and whether the session was asked to end."""


class IdleToken(msgspec.Struct, frozen=True):
    """Lets whoever takes it begin a turn, or end the session."""
