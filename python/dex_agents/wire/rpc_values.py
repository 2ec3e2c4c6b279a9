"""Inputs and outputs of the session's RPCs."""

from __future__ import annotations

from typing import Literal

import msgspec

from dex_agents.wire.tool_calls import ApprovalDecision

__all__ = [
    "CancelTurnRequest",
    "CloseSessionRequest",
    "CommandReply",
    "CommandVerdict",
    "ResolveInterruptRequest",
    "SendUserMessageRequest",
]

CommandVerdict = Literal["applied", "already_done", "session_closing", "invalid"]
"""`applied`: this call took effect. `already_done`: an earlier call did, or there is nothing left to do.
`session_closing`: the session takes no more commands. `invalid`: see `field` and `problem`."""


class CommandReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a command.

    Attributes:
        verdict: See `CommandVerdict`.
        field: For `invalid`: the offending field.
        problem: For `invalid`: what is wrong with it.
    """

    verdict: CommandVerdict
    field: str = ""
    problem: str = ""


class SendUserMessageRequest(msgspec.Struct, frozen=True):
    """Input of `send_user_message`.

    Attributes:
        message_id: The same ID twice is one message.
        text: The message.
        request_id: Names this call of the client across its own retries.
    """

    message_id: str
    text: str
    request_id: str


class ResolveInterruptRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Input of `resolve_interrupt`.

    Attributes:
        interrupt_id: Which question is answered.
        decision: The answer.
        request_id: Names this call of the client across its own retries.
        reason: Shown to the model on a rejection.
        arguments: JSON text to run instead of what the model asked for.
    """

    interrupt_id: str
    decision: ApprovalDecision
    request_id: str
    reason: str | None = None
    arguments: str | None = None


class CancelTurnRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Input of `cancel_turn`.

    Attributes:
        request_id: Names this call of the client across its own retries.
        turn_id: Cancel only this turn; `None` for whichever runs.
    """

    request_id: str
    turn_id: str | None = None


class CloseSessionRequest(msgspec.Struct, frozen=True):
    """Input of `close_session`.

    Attributes:
        request_id: Names this call of the client across its own retries.
    """

    request_id: str
