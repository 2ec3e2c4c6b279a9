"""Plans: what a model says it will do, and how far it is."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["AgentPlan", "InteractionMode", "PlanStatus", "PlanTodo", "TodoStatus"]

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]

PlanStatus = Literal["draft", "active", "done"]
"""`draft` waits for a person's approval, `active` is being worked on, `done` has nothing open."""

InteractionMode = Literal["default", "plan"]
"""`plan`: the turn writes a plan and runs nothing."""


class PlanTodo(msgspec.Struct, frozen=True):
    """One task of a plan.

    Attributes:
        id: Names it within its plan.
        task: What is to be done.
        status: How far it is.
    """

    id: str
    task: str
    status: TodoStatus


class AgentPlan(msgspec.Struct, frozen=True):
    """The latest plan of a session; each `write_todos` replaces it whole.

    Attributes:
        revision: Counts the plans of the session, from 1.
        status: See `PlanStatus`.
        todos: In the model's order.
    """

    revision: int
    status: PlanStatus
    todos: tuple[PlanTodo, ...]
