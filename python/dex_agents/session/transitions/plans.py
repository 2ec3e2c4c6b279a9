"""Plans: what `write_todos` makes of the plan, and how a draft is approved."""

from __future__ import annotations

import msgspec

from dex_agents.wire.plans import AgentPlan, PlanTodo

__all__ = ["approve_plan", "write_plan"]


def write_plan(plan: AgentPlan | None, todos: tuple[PlanTodo, ...], *, plan_mode: bool) -> AgentPlan:
    """Return the plan that replaces another one.

    Args:
        plan: The plan so far, or `None`.
        todos: The new tasks.
        plan_mode: Whether the turn only plans: then a person has to approve.
    """
    revision = 1 if plan is None else plan.revision + 1
    if plan_mode:
        return AgentPlan(revision, "draft", todos)
    is_open = any(todo.status in ("pending", "in_progress") for todo in todos)
    return AgentPlan(revision, "active" if is_open else "done", todos)


def approve_plan(plan: AgentPlan | None, revision: int) -> AgentPlan | None:
    """Return the plan as it becomes, or `None` when that revision is not the latest draft."""
    if plan is None or plan.status != "draft" or plan.revision != revision:
        return None
    return msgspec.structs.replace(plan, status="active")
