"""What joins a running turn before its next model call: steering messages, and news about earlier calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from dex_agents.session.transitions.messages import number_messages
from dex_agents.wire.messages import AgentMessage, FrameworkMessage

__all__ = ["JoiningMessage", "number_joined"]


@dataclass(frozen=True)
class JoiningMessage:
    """One message that joins a turn.

    Attributes:
        message: As the runner spells it.
        message_id: For a message of the user: the ID under which it was accepted.
    """

    message: FrameworkMessage
    message_id: str | None = None


def number_joined(
    messages: Sequence[FrameworkMessage],
    joining: Sequence[JoiningMessage],
    *,
    next_sequence: int,
    turn_id: str,
    now: datetime,
) -> tuple[AgentMessage, ...]:
    """Return messages as they are stored, numbered from `next_sequence`.

    What joins stands where the model read it: after the results of the calls before, never between a call and
    its result, and before the answer.

    Args:
        messages: What the runner handed over, in order.
        joining: What joined before the model call, in order.
        next_sequence: The number of the first.
        turn_id: The turn.
        now: The time of the commit.
    """
    results = list(takewhile(lambda message: message.role == "tool", messages))
    ordered = [
        *(JoiningMessage(message) for message in results),
        *joining,
        *(JoiningMessage(message) for message in messages[len(results) :]),
    ]
    stored: list[AgentMessage] = []
    for one in ordered:
        stored += number_messages(
            [one.message],
            next_sequence=next_sequence + len(stored),
            turn_id=turn_id,
            now=now,
            message_id=one.message_id,
        )
    return tuple(stored)
