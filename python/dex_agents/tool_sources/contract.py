"""What a tool source implements, and the little that every source has to say about each of its tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, runtime_checkable

from dex_agents.errors import InvalidInputError
from dex_agents.runner.outcomes import DeferredToolCall, ToolOutcome
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["BuildsDeferredCalls", "SourceTool", "ToolSource", "require_tool_sources"]

_SOURCE_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class SourceTool:
    """A tool as its source lists it.

    Attributes:
        name: What the model calls it, `^[a-zA-Z0-9_-]{1,64}$`.
        description: What the model reads about it.
        parameters: The JSON Schema of its arguments, with `"type": "object"` at the top; not to be changed. A
            schema that does not compile is offered as it is, and the arguments then go unchecked.
        effect: What running it twice would mean; `None` follows the session's default, `unclassified`.
        requires_approval: Whether a person is asked first; `None` follows the effect.
        ordered: Whether, as a write, it waits for the earlier ordered writes of its response.
        reconcilable: Whether the source can look up what became of a call; needs `ReconcilesToolCalls`.
        reference: What the source needs to find the tool again, at most `limits.MAX_IDENTIFIER_CHARACTERS`
            long; given back with every call of it as `DeferredToolExecution.tool_source_reference`, whatever
            the source lists by then.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effect: ToolEffect | None = None
    requires_approval: bool | None = None
    ordered: bool = False
    reconcilable: bool = False
    reference: str | None = None


class ToolSource(Protocol):
    """Offers tools that are known at run time only.

    One source serves every session of its Worker at once, so it keeps no session's state in itself. A source
    that can do more than this implements `BuildsDeferredCalls`, `PollsToolTasks` or `ReconcilesToolCalls`
    beside it; what it implements is looked at once, when a router is made.
    """

    @property
    def name(self) -> str:
        """Names the source among those of its agent, `^[a-zA-Z0-9_-]{1,64}$`.

        Stored with every call, so that the call finds back: keep it when the application changes.
        """
        ...

    async def list_tools(self) -> Sequence[SourceTool]:
        """Return what there is to offer now, in a stable order.

        Called before every model call that offers tools. Raise when it is not known: the tools are then left
        out of that call, and the session goes on.

        Durability:
            Runs inside `RunModel`, again in every attempt; must change nothing.
        """
        ...

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        """Run one call of a tool that this source listed once, on this Worker or another.

        Args:
            call: The call as committed; `tool_source_reference` is what `SourceTool.reference` said.

        Returns:
            The result, questions to a person, or, from a source that `PollsToolTasks`, the task it started.

        Raises:
            ToolExecutionError: The outcome is known and final, such as a tool that is gone: recorded
                `failed`, not retried.
            ToolOutcomeUnknownError: It may have taken effect: recorded `outcome_unknown`, never sent again.

        Durability:
            See `AgentFrameworkRunner.execute_deferred_tool_call`: any other exception is a failed attempt,
            repeated for `read` and `idempotent_write`, `outcome_unknown` for the others.
        """
        ...


@runtime_checkable
class BuildsDeferredCalls(Protocol):
    """A source that decides effect, approval and order of a call by rules of its own."""

    def build_deferred_call(
        self, turn: AgentTurnContext, tool: SourceTool, call: DeferredToolCall
    ) -> DeferredToolCall:
        """Return a call as it is to be deferred; pure.

        Args:
            turn: The turn; `turn.tool_policies` holds what the application says about tools.
            tool: The tool as it was listed.
            call: The call as the tool's declaration and the session's policy make it.

        Returns:
            `call` with another policy, order, refusal or `reconcilable`; its IDs, name, arguments and
            reference stay what they are, whatever is returned.
        """
        ...


def require_tool_sources(field: str, sources: Sequence[ToolSource]) -> tuple[ToolSource, ...]:
    """Return sources that may stand beside each other.

    Raises:
        InvalidInputError: One is no source, or two have one name.
    """
    names: set[str] = set()
    for source in sources:
        raw = cast("Any", source)
        name = getattr(raw, "name", None)
        if not isinstance(name, str) or _SOURCE_NAME.fullmatch(name) is None:
            raise InvalidInputError(
                field, f"the name of {type(raw).__name__} must match ^[a-zA-Z0-9_-]{{1,64}}$, got {name!r}"
            )
        for method in ("list_tools", "execute_deferred_tool_call"):
            if not callable(getattr(raw, method, None)):
                raise InvalidInputError(field, f"the source {name!r} has no method {method}")
        if name in names:
            raise InvalidInputError(field, f"two sources have the name {name!r}")
        names.add(name)
    return tuple(sources)
