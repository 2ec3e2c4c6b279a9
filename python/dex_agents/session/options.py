"""What an application chooses for a session Flow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from dex_agents.errors import InvalidInputError
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.session.spend import SpendLimiter
from dex_agents.session.transitions.retention import RetentionRules
from dex_agents.tools.builtin import WRITE_TODOS, require_built_in_tools
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy

__all__ = ["AgentSessionOptions"]

_ONE_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class AgentSessionOptions:
    """Options of a session Flow; the same on every Worker of its Flow type.

    Attributes:
        tool_policies: By tool name; they win over a tool's own declaration.
        default_tool_effect: The effect of a tool that declares none.
        event_stream_capacity_bytes: How much of the live events is kept, over all sessions of the Flow type.
        model_call_timeout: Time for one attempt of a model call.
        tool_call_timeout: Time for one attempt of a tool call.
        cancel_grace: How long a cancelled turn waits for its running calls to end with a known result.
        built_in_tools: Names of the tools that the session itself runs: `ask_user`, `durable_wait`,
            `write_todos`.
        plan_mode_enabled: Whether messages may ask for a plan; needs `write_todos`, and a runner that can.
        interrupt_deadline: How long an approval or a question waits before it counts as decided by nobody;
            `None` for ever.
        compaction: Keeps the model's input below its context window; `None` never shortens it. Needs a runner
            that implements `CompactsContext`.
        spend_limiter: Asked before each model call and told after it; `None` counts nothing.
        keep_messages: How many of the latest messages stay stored; at least 1, `None` for all. Older ones are
            deleted between turns, with the records of their tool calls and the receipts of their IDs, once a
            summary covers them. Up to an eighth more may stay for a while.
        keep_turns: The same, counted in turns. With both, what either keeps stays.
        drop_uncovered: Delete older messages also when no summary covers them: the model then knows nothing
            of them any more.

    Raises:
        InvalidInputError: A number is out of its range.
    """

    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict[str, ToolPolicy])
    default_tool_effect: ToolEffect = ToolEffect.UNCLASSIFIED
    event_stream_capacity_bytes: int = 64 * 1024 * 1024
    model_call_timeout: timedelta = timedelta(minutes=10)
    tool_call_timeout: timedelta = timedelta(hours=2)
    cancel_grace: timedelta = timedelta(seconds=30)
    built_in_tools: Collection[str] = ()
    plan_mode_enabled: bool = False
    interrupt_deadline: timedelta | None = None
    compaction: CompactionPolicy | None = None
    spend_limiter: SpendLimiter | None = None
    keep_messages: int | None = None
    keep_turns: int | None = None
    drop_uncovered: bool = False

    @property
    def retention(self) -> RetentionRules:
        """What is kept of a session's past."""
        return RetentionRules(
            keep_messages=self.keep_messages, keep_turns=self.keep_turns, drop_uncovered=self.drop_uncovered
        )

    def __post_init__(self) -> None:
        """Check every number."""
        if self.event_stream_capacity_bytes < 1:
            raise InvalidInputError("event_stream_capacity_bytes", "must be at least 1")
        for name in ("model_call_timeout", "tool_call_timeout", "cancel_grace"):
            if getattr(self, name) < _ONE_SECOND:
                raise InvalidInputError(name, "must be at least one second, the unit of the engine")
        if self.interrupt_deadline is not None and self.interrupt_deadline < _ONE_SECOND:
            raise InvalidInputError(
                "interrupt_deadline", "must be at least one second, the unit of the engine"
            )
        for name in ("keep_messages", "keep_turns"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidInputError(name, f"must be at least 1 or None, got {number}")
        if self.drop_uncovered and self.keep_messages is None and self.keep_turns is None:
            raise InvalidInputError("drop_uncovered", "needs keep_messages or keep_turns")
        _require_policy(self.compaction)
        _require_limiter(self.spend_limiter)
        require_built_in_tools("built_in_tools", self.built_in_tools)
        if self.plan_mode_enabled and WRITE_TODOS.name not in self.built_in_tools:
            raise InvalidInputError("plan_mode_enabled", "needs write_todos in built_in_tools")


def _require_policy(policy: object) -> None:
    # It comes from an application that may not be type checked, and is first used inside a running turn.
    if policy is not None and not isinstance(policy, CompactionPolicy):
        raise InvalidInputError(
            "compaction", f"must be a CompactionPolicy or None, not {type(policy).__name__}"
        )


def _require_limiter(limiter: object) -> None:
    for method in ("check", "report"):
        if limiter is not None and not callable(getattr(limiter, method, None)):
            raise InvalidInputError("spend_limiter", f"it has no method {method}")
