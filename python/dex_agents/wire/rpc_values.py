"""Inputs and outputs of the session's RPCs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.tool_calls import Answer, ApprovalDecision

__all__ = [
    "AnswerQuestionRequest",
    "ApprovePlanRequest",
    "CancelTurnRequest",
    "CloseSessionRequest",
    "CommandReply",
    "CommandVerdict",
    "QueuedMessages",
    "ResolveInterruptRequest",
    "SendUserMessageRequest",
    "SettleToolOutcomeRequest",
    "SettledAs",
    "UpdateSessionSettingsRequest",
    "WithdrawMessageRequest",
]

SettledAs = Literal["succeeded", "failed"]
"""What an unknown outcome turns out to be."""

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


class SendUserMessageRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Input of `send_user_message` and of `steer_user_message`.

    Attributes:
        message_id: The same ID twice is one message.
        text: The message.
        request_id: Names this call of the client across its own retries.
        plan_mode: Whether the turn writes a plan and runs nothing.
        images: What the model sees with the text.
    """

    message_id: str
    text: str
    request_id: str
    plan_mode: bool = False
    images: tuple[AgentImageReference, ...] = ()


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


class AnswerQuestionRequest(msgspec.Struct, frozen=True):
    """Input of `answer_question`.

    Attributes:
        interrupt_id: Which questions are answered.
        answers: One for each question, by its ID.
        request_id: Names this call of the client across its own retries.
    """

    interrupt_id: str
    answers: dict[str, Answer]
    request_id: str


class ApprovePlanRequest(msgspec.Struct, frozen=True):
    """Input of `approve_plan`.

    Attributes:
        revision: The draft that the person saw.
        request_id: Names this call of the client across its own retries.
    """

    revision: int
    request_id: str


class SettleToolOutcomeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Input of `settle_tool_outcome`.

    Attributes:
        tool_call_id: The call whose outcome is unknown.
        outcome: What was found out.
        output: What the model is to read as its result, or as the reason of the failure.
        request_id: Names this call of the client across its own retries.
        person: Who found out.
    """

    tool_call_id: str
    outcome: SettledAs
    output: str
    request_id: str
    person: str | None = None


class UpdateSessionSettingsRequest(msgspec.Struct, frozen=True):
    """Input of `update_session_settings`.

    Attributes:
        settings: The settings as they become, whole.
    """

    settings: dict[str, Any]


class WithdrawMessageRequest(msgspec.Struct, frozen=True):
    """Input of `withdraw_message`.

    Attributes:
        message_id: A message that no turn has taken.
        request_id: Names this call of the client across its own retries.
    """

    message_id: str
    request_id: str


class QueuedMessages(msgspec.Struct, frozen=True):
    """Output of `list_queued_messages`.

    Attributes:
        messages: Accepted and not taken by a turn, in the order in which turns will take them.
    """

    messages: tuple[QueuedMessage, ...]
