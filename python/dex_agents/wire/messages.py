"""Messages: what a user sends, what a runner hands over, and what a session stores."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from dex_agents.wire.images import AgentImageReference

__all__ = [
    "AgentMessage",
    "AgentUserMessage",
    "FrameworkMessage",
    "MessageChunk",
    "MessageRole",
    "QueuedMessage",
]

MessageRole = Literal["user", "assistant", "tool", "note"]
"""Who speaks: the person, the model, a tool's result, or the session itself about an unfinished turn."""


class AgentUserMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a person.

    Attributes:
        text: What the model reads; not blank, at most `limits.MAX_USER_TEXT_BYTES` as UTF-8.
        message_id: Names the message across retries: the same ID twice is one message. A client gives
            each message a fresh one when it is left out.
        plan_mode: Whether the turn writes a plan and runs nothing.
        images: What the model sees with the text, from the agent's media store; at most
            `limits.MAX_IMAGES_PER_MESSAGE`.
    """

    text: str
    message_id: str | None = None
    plan_mode: bool = False
    images: tuple[AgentImageReference, ...] = ()


class QueuedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that was accepted and waits for its turn.

    Attributes:
        message_id: The ID under which it was accepted.
        text: Its text.
        accepted_at: When the Worker accepted it.
        plan_mode: Whether its turn writes a plan and runs nothing.
        steering: Whether it is to join the turn that runs.
        approved_plan: The revision of the plan whose approval this message stands for.
        images: Its images.
    """

    message_id: str
    text: str
    accepted_at: datetime
    plan_mode: bool = False
    steering: bool = False
    approved_plan: int | None = None
    images: tuple[AgentImageReference, ...] = ()


class FrameworkMessage(msgspec.Struct, frozen=True):
    """A message as a runner hands it to the session.

    Attributes:
        role: Who speaks.
        framework_item: The runner's own JSON, stored as it is and given back for every later model call.
        text: Display text, or `None` when there is none.
        tool_call_id: For a tool result: the call it answers.
        tool_name: For a tool result: the tool.
        tool_arguments: For a tool result: the arguments as the model wrote them.
        tool_output: For a tool result: what the model reads.
        images: For display; what the model sees is in `framework_item`.
    """

    role: MessageRole
    framework_item: str
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_arguments: str | None = None
    tool_output: str | None = None
    images: tuple[AgentImageReference, ...] = ()


class AgentMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored message.

    Attributes:
        sequence: Position in the session, from 1, without gaps.
        turn_id: The turn it belongs to, `turn-<n>`; for a message that the end of the session left
            unanswered, the latest turn before it, `turn-0` when there was none.
        role: Who speaks.
        framework_item: The runner's own JSON, replayed unchanged.
        stored_at: When it was stored.
        message_id: For a user message: the ID under which it was accepted.
        text: Display text.
        tool_call_id: For a tool result: the call it answers.
        tool_name: For a tool result: the tool.
        tool_arguments: For a tool result: the arguments as the model wrote them.
        tool_output: For a tool result: what the model reads.
        images: Of a user's message or of a tool result, for display.
    """

    sequence: int
    turn_id: str
    role: MessageRole
    framework_item: str
    stored_at: datetime
    message_id: str | None = None
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_arguments: str | None = None
    tool_output: str | None = None
    images: tuple[AgentImageReference, ...] = ()


class MessageChunk(msgspec.Struct, frozen=True):
    """Consecutive messages under one key of the message map.

    A commit writes only the chunk of its own messages, so what a turn writes does not grow with the
    session; now and then the small chunks at the end are joined into one.

    Attributes:
        messages: At least one message, in sequence order.
    """

    messages: tuple[AgentMessage, ...]
