"""Interrupts: what a session waits on before it can go on with a call."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["AgentInterrupt", "AgentQuestion", "InterruptKind", "QuestionOption"]

InterruptKind = Literal["approval", "question", "wait", "task"]
"""`approval` and `question` wait on a person, `wait` on a point in time, `task` on a remote server."""


class QuestionOption(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer to choose from.

    Attributes:
        label: What the answer says; it is the answer's text when it is chosen.
        description: What choosing it means.
    """

    label: str
    description: str | None = None


class AgentQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question to a person.

    Attributes:
        id: Names it among the questions that are asked together.
        question: What is asked.
        options: Answers to choose from; a person may answer in other words all the same.
        multiple: Whether several answers may be given.
    """

    id: str
    question: str
    options: tuple[QuestionOption, ...] = ()
    multiple: bool = False


class AgentInterrupt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a session waits on, with all that is needed to show it.

    Attributes:
        interrupt_id: Names it for the command that ends it; never used twice in a session.
        kind: What is waited on.
        turn_id: The turn that waits.
        tool_call_id: The call that waits.
        tool_name: The tool.
        effect: What running it means.
        arguments: The model's original text.
        opened_at: When the interrupt was committed.
        effective_arguments: What would run, as JSON text, when it differs from `arguments`.
        questions: For `question`: what is asked.
        deadline: For `approval` and `question`: when it counts as decided by nobody; `None` for never.
        until: For `wait`: when it is over.
        reason: For `wait`: why the model waits.
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
    questions: tuple[AgentQuestion, ...] = ()
    deadline: datetime | None = None
    until: datetime | None = None
    reason: str | None = None

    @property
    def waits_on_person(self) -> bool:
        """Whether somebody has to decide or to answer."""
        return self.kind in ("approval", "question")
