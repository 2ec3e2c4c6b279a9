"""Effects and policies."""

from __future__ import annotations

import pytest

from dex_agents.tools.effects import resolve_tool_policy
from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect, ToolPolicy

READ, WRITE = ToolEffect.READ, ToolEffect.NON_IDEMPOTENT_WRITE


@pytest.mark.parametrize(
    ("effect", "asks"),
    [
        (ToolEffect.READ, False),
        (ToolEffect.IDEMPOTENT_WRITE, False),
        (ToolEffect.NON_IDEMPOTENT_WRITE, True),
        (ToolEffect.UNCLASSIFIED, True),
    ],
)
def test_approval_follows_the_effect_when_nobody_said_otherwise(effect: ToolEffect, asks: bool) -> None:
    assert resolve_tool_policy(effect, None, None) == ResolvedToolPolicy(effect, asks)


@pytest.mark.parametrize(
    ("declared", "wish", "policy", "resolved"),
    [
        (READ, True, None, (READ, True)),
        (WRITE, False, None, (WRITE, False)),
        (READ, None, ToolPolicy(effect=WRITE), (WRITE, True)),
        (WRITE, None, ToolPolicy(effect=READ), (READ, False)),
        (WRITE, True, ToolPolicy(requires_approval=False), (WRITE, False)),
        (READ, False, ToolPolicy(requires_approval=True), (READ, True)),
        (READ, False, ToolPolicy(effect=WRITE), (WRITE, False)),
    ],
)
def test_a_policy_wins_field_by_field(
    declared: ToolEffect, wish: bool | None, policy: ToolPolicy | None, resolved: tuple[ToolEffect, bool]
) -> None:
    assert resolve_tool_policy(declared, wish, policy) == ResolvedToolPolicy(*resolved)
