"""What a model reads about the session's plan in every call."""

from __future__ import annotations

from dex_agents import texts
from dex_agents.wire.plans import AgentPlan, InteractionMode

__all__ = ["build_plan_note"]


def build_plan_note(plan: AgentPlan | None, interaction_mode: InteractionMode) -> str | None:
    """Return the note that shows a model the plan; pure.

    A runner puts it before the turn's messages, as text of the user's side, in every model call: the model
    then sees the latest plan whatever has become of the messages that wrote it.

    Args:
        plan: The latest plan, or `None`.
        interaction_mode: `plan` in a turn that only plans.

    Returns:
        The note, or `None` when there is no plan and the turn does not plan.
    """
    parts: list[str] = []
    if plan is not None:
        lines = [texts.plan_note_header(plan.revision, plan.status)]
        # One task is one line, whatever the model wrote.
        lines += [
            texts.plan_note_task(" ".join(todo.id.split()), " ".join(todo.task.split()), todo.status)
            for todo in plan.todos
        ]
        parts.append("\n".join(lines))
    if interaction_mode == "plan":
        parts.append(texts.PLAN_NOTE_PLANNING)
    elif plan is not None and plan.status == "draft":
        parts.append(texts.PLAN_NOTE_DRAFT)
    elif plan is not None and plan.status == "active":
        parts.append(texts.PLAN_NOTE_ACTIVE)
    return "\n\n".join(parts) or None
