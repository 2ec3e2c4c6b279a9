"""The contract of a spend limiter: asked before each model call, told after it what the call consumed."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dex_agents.wire.spend import ModelCallPurpose, SpendReport
from dex_agents.wire.usage import AgentUsage, ModelUsage, empty_agent_usage

__all__ = ["SpendCheck", "SpendLimiter", "SpendRefused"]


@dataclass(frozen=True, kw_only=True)
class SpendCheck:
    """A model call that is about to be made.

    Attributes:
        call_id: Names the call; the same on every attempt of its Step, and the beginning of
            `SpendReport.call_id`.
        session_id: The session.
        turn_id: The turn.
        attempt: Which attempt of the Step asks, from 1. Every attempt that goes on is another call to pay.
        purpose: What the call is for.
        session_usage: What the session consumed so far, as committed.
        turn_usage: What the turn consumed so far, as committed, one entry a model.
        estimated_input_tokens: About how long the input is, where the session had to know; else `None`.
        session_settings: The session's settings as they are now; `{}` when there are none.
    """

    call_id: str
    session_id: str
    turn_id: str
    attempt: int
    purpose: ModelCallPurpose
    session_usage: AgentUsage = field(default_factory=empty_agent_usage)
    turn_usage: tuple[ModelUsage, ...] = ()
    estimated_input_tokens: int | None = None
    session_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class SpendRefused:
    """The model call is not to be made; the turn ends as failed and the session stays usable.

    Attributes:
        reason: What the person and the model read about it; one sentence.
    """

    reason: str


class SpendLimiter(Protocol):
    """Counts what model calls consume and refuses the ones that go too far; sync or async.

    One limiter serves every session of its Flow type at once, and may span other Flow types and processes.
    """

    def check(self, check: SpendCheck) -> SpendRefused | Awaitable[SpendRefused | None] | None:
        """Say whether a model call may be made: `None` when it may.

        Durability:
            Runs inside `RunModel` before every model call and every summary call, and before a continuation
            hook that may end the turn without a call. An exception fails the attempt: what cannot be counted
            is not spent.
        """
        ...

    def report(self, report: SpendReport) -> Awaitable[None] | None:
        """Count what a model call consumed.

        Keep each `call_id` once: a report may come again.

        Durability:
            Runs inside `RunModel` right after the model answered, before its answer is committed: a Worker
            that dies in between has reported, and the next attempt, a call to be paid of its own, has a
            `call_id` of its own. When it raises, the answer is kept, and the report is stored with the
            session and comes again before the session's next model call. A call whose Worker dies before this
            is entered was answered to nobody and is reported by nobody.
        """
        ...
