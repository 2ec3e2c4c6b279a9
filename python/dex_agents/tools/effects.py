"""Effect classes, and how a declaration and a policy merge into what applies to one call."""

from __future__ import annotations

from typing import Final

from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect, ToolPolicy

__all__ = ["asks_for_approval_by_default", "resolve_tool_policy"]

_ASKS: Final = frozenset((ToolEffect.NON_IDEMPOTENT_WRITE, ToolEffect.UNCLASSIFIED))


def asks_for_approval_by_default(effect: ToolEffect) -> bool:
    """Whether a call with this effect waits for a person when nobody said otherwise."""
    return effect in _ASKS


def resolve_tool_policy(
    declared: ToolEffect, requires_approval: bool | None, policy: ToolPolicy | None
) -> ResolvedToolPolicy:
    """Merge what a tool declares with what the application says about it.

    The policy wins field by field. An approval that nobody set follows the effect that applies.

    Args:
        declared: The tool's own effect.
        requires_approval: The tool's own wish, or `None`.
        policy: The application's policy for the tool, or `None`.
    """
    effect = declared
    approval = requires_approval
    if policy is not None:
        if policy.effect is not None:
            effect = policy.effect
        if policy.requires_approval is not None:
            approval = policy.requires_approval
    if approval is None:
        approval = asks_for_approval_by_default(effect)
    return ResolvedToolPolicy(effect=effect, requires_approval=approval)
