"""Tool sources whose listing a test can change while they are in use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dex_agents.errors import ToolExecutionError
from dex_agents.runner.outcomes import (
    DeferredToolCall,
    ToolExecutionResult,
    ToolOutcome,
    ToolReconciliation,
    ToolTaskStarted,
)
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.tool_sources.contract import SourceTool
from dex_agents.wire.tool_calls import ToolEffect

Lister = Callable[[], Awaitable[Sequence[SourceTool]]]


def build_tool(name: str, **changes: Any) -> SourceTool:
    fields: dict[str, Any] = {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {"type": "object"},
        "effect": ToolEffect.READ,
    }
    return SourceTool(**(fields | changes))


@dataclass
class ListedSource:
    """Lists what it is given and answers each call with its own name and the call's reference."""

    name: str
    tools: Sequence[SourceTool] = ()
    lister: Lister | None = None
    executed: list[DeferredToolExecution] = field(default_factory=list[DeferredToolExecution])

    async def list_tools(self) -> Sequence[SourceTool]:
        return self.tools if self.lister is None else await self.lister()

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        self.executed.append(call)
        if call.tool_name not in {tool.name for tool in self.tools}:
            raise ToolExecutionError(f"{self.name} has no {call.tool_name}")
        return ToolExecutionResult(f"{self.name}: {call.tool_source_reference}")


@dataclass
class PollingSource(ListedSource):
    """Starts tasks, and can do all that a source can do."""

    cancelled: list[str | None] = field(default_factory=list[str | None])

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        return ToolTaskStarted(f"task of {call.tool_call_id}")

    async def poll_tool_task(self, call: DeferredToolExecution) -> ToolOutcome:
        return ToolExecutionResult(f"{call.task_reference} {call.tool_source_reference}")

    async def cancel_tool_task(self, call: DeferredToolExecution) -> None:
        self.cancelled.append(call.task_reference)

    async def reconcile_tool_call(self, call: DeferredToolExecution) -> ToolReconciliation:
        return ToolReconciliation("succeeded", f"{call.tool_source_reference}")


@dataclass
class DecidingSource(ListedSource):
    """Decides about its calls by a function of the test."""

    decide: Callable[[DeferredToolCall], Any] = lambda call: call

    def build_deferred_call(
        self, turn: AgentTurnContext, tool: SourceTool, call: DeferredToolCall
    ) -> DeferredToolCall:
        decided: DeferredToolCall = self.decide(call)
        return decided


def fail_to_list(error: BaseException) -> Lister:
    async def lister() -> Sequence[SourceTool]:
        raise error

    return lister
