"""What one model call offers, and what becomes of the calls that the model asks for.

The tools of a call, in order: the agent's function tools, the built-in tools of its session, then what the
tool sources list. A turn that plans offers `write_todos` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from dex_agents import limits, texts
from dex_agents.builtin_loop.contract import ModelTool, ToolChoice
from dex_agents.builtin_loop.definition import AgentDefinition
from dex_agents.builtin_loop.function_tool import FunctionTool
from dex_agents.builtin_loop.source_schemas import SourceSchemas
from dex_agents.builtin_loop.stored_items import StoredToolCall
from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError, decode_tool_arguments
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.tool_sources.listing import ListedTool, ToolListing
from dex_agents.tool_sources.router import ToolSourceRouter
from dex_agents.tools.builtin import WRITE_TODOS, BuiltInTool
from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect

__all__ = ["NO_TOOLS", "AgentTools", "OfferedTools"]

_PLAIN_POLICY: Final = ResolvedToolPolicy(effect=ToolEffect.READ, requires_approval=False)
"""Of calls that no tool Step runs: refused ones, and those of built-in tools."""


@dataclass(frozen=True, kw_only=True)
class OfferedTools:
    """The tools of one model call.

    Attributes:
        model_tools: As the model is offered them.
        tool_choice: Whether the model has to call one.
        is_planning: Whether the turn only plans.
        built_in: Names of the built-in tools among them.
        listing: What the sources offer.
    """

    model_tools: tuple[ModelTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    is_planning: bool = False
    built_in: frozenset[str] = frozenset()
    listing: ToolListing = field(default_factory=lambda: ToolListing({}))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(tool.name for tool in self.model_tools)


NO_TOOLS: Final = OfferedTools()
"""Of the model call that has to end its turn."""


class AgentTools:
    """All tools that an agent has, of its own and from its sources; shared by its sessions."""

    def __init__(self, definition: AgentDefinition) -> None:
        self._definition: Final = definition
        self._functions: Final = {tool.name: tool for tool in definition.tools}
        self._function_models: Final = tuple(
            ModelTool(tool.name, tool.description, tool.parameters) for tool in definition.tools
        )
        self._schemas: Final = SourceSchemas()
        self.router: Final = ToolSourceRouter(
            definition.tool_sources, listing_timeout=definition.tool_listing_timeout
        )

    def find_function(self, tool_name: str) -> FunctionTool | None:
        """Return a function tool."""
        return self._functions.get(tool_name)

    def find_taken_name(self, turn: AgentTurnContext) -> str | None:
        """Return the name of a built-in tool of the session that a function tool has too.

        A definition cannot say so; options of the session that were made apart from it can.
        """
        return next((tool.name for tool in turn.built_in_tools if tool.name in self._functions), None)

    async def offer(self, turn: AgentTurnContext) -> OfferedTools:
        """Return the tools of the turn's next model call.

        Durability:
            Runs inside `RunModel` before the model call. A source that fails takes away its own tools only.
        """
        if turn.interaction_mode == "plan":
            return self._offer_planning(turn)
        reserved = {*self._functions, *(tool.name for tool in turn.built_in_tools)}
        listing = await self.router.list_tools(reserved_names=reserved)
        await self._schemas.keep((*listing.tools.values(), *listing.unreachable.values()))
        return OfferedTools(
            model_tools=(
                *self._function_models,
                *map(_as_model_tool, turn.built_in_tools),
                *map(_as_listed_model_tool, listing.tools.values()),
            ),
            built_in=frozenset(tool.name for tool in turn.built_in_tools),
            listing=listing,
        )

    def build_deferred_call(
        self, turn: AgentTurnContext, offered: OfferedTools, call: StoredToolCall, arguments: str, index: int
    ) -> DeferredToolCall:
        """Return what the session is to do with a call that the model asked for.

        Args:
            turn: The turn that asks.
            offered: The tools that the model was offered.
            call: The call as it is stored.
            arguments: What the model wrote, whole.
            index: Its place among the calls of the response, from 0.
        """
        plain = DeferredToolCall(
            tool_call_id=call.tool_call_id,
            model_call_id=call.model_call_id,
            tool_name=call.tool_name,
            arguments=call.arguments,
            policy=_PLAIN_POLICY,
        )
        is_late = index >= limits.MAX_TOOL_CALLS_PER_RESPONSE
        if offered.is_planning and call.tool_name != WRITE_TODOS.name:
            deferred = msgspec.structs.replace(plain, refusal=texts.PLAN_MODE_NOTHING_ELSE)
        elif call.tool_name in offered.built_in:
            deferred = plain
        elif (tool := self._functions.get(call.tool_name)) is not None:
            deferred = _defer_function(turn, tool, plain, None if is_late else arguments)
        elif (listed := _find_listed(offered.listing, call.tool_name)) is not None:
            deferred = self.router.build_deferred_call(turn, listed, plain)
            if deferred.refusal is None and not is_late:
                deferred = self._fit_listed(listed, deferred, arguments)
        else:
            deferred = msgspec.structs.replace(
                plain, refusal=texts.unknown_tool(call.tool_name, offered.names)
            )
        if not is_late:
            return deferred
        reason = texts.tool_call_beyond_response_limit(limits.MAX_TOOL_CALLS_PER_RESPONSE)
        return msgspec.structs.replace(deferred, refusal=None, not_run_reason=reason)

    def fit_arguments(self, tool_name: str, arguments: str, tool_source_reference: str | None) -> str:
        """Return the JSON text that would run for arguments which a person changed.

        A source's tool that this Worker has not listed yet has no schema here: any JSON object is taken, and
        the source finds out when it runs.

        Raises:
            ArgumentsProblemError: The arguments do not fit.
            LookupError: The agent has no such tool.
        """
        if tool_source_reference is None:
            return self._functions[tool_name].fit_arguments(arguments)
        listed = self.router.find_tool(tool_name, tool_source_reference)
        if listed is None:
            return decode_tool_arguments(arguments).text
        return self._schemas.fit_arguments(listed, arguments)

    def _offer_planning(self, turn: AgentTurnContext) -> OfferedTools:
        writes = tuple(tool for tool in turn.built_in_tools if tool.name == WRITE_TODOS.name)
        # Once the plan stands, a model that had to call a tool could never end its turn.
        is_written = any(
            call.tool_name == WRITE_TODOS.name and call.status == "succeeded" for call in turn.tool_calls
        )
        return OfferedTools(
            model_tools=tuple(map(_as_model_tool, writes)),
            tool_choice="auto" if is_written or not writes else self._definition.planning_tool_choice,
            is_planning=True,
            built_in=frozenset(tool.name for tool in writes),
        )

    def _fit_listed(self, listed: ListedTool, deferred: DeferredToolCall, arguments: str) -> DeferredToolCall:
        try:
            to_run = self._schemas.fit_arguments(listed, arguments)
        except ArgumentsProblemError as problem:
            return msgspec.structs.replace(deferred, refusal=texts.invalid_arguments(str(problem)))
        return _with_arguments(deferred, to_run)


def _defer_function(
    turn: AgentTurnContext, tool: FunctionTool, plain: DeferredToolCall, arguments: str | None
) -> DeferredToolCall:
    policy = turn.resolve_tool_policy(tool.name, tool.effect, tool.requires_approval)
    deferred = msgspec.structs.replace(
        plain,
        policy=policy,
        ordered=tool.ordered and policy.effect.is_write,
        reconcilable=tool.is_reconcilable,
    )
    if arguments is None:
        return deferred
    try:
        to_run = tool.prepare_arguments(arguments)
    except ArgumentsProblemError as problem:
        return msgspec.structs.replace(deferred, refusal=texts.invalid_arguments(str(problem)))
    return _with_arguments(deferred, to_run)


def _with_arguments(deferred: DeferredToolCall, to_run: str) -> DeferredToolCall:
    if to_run == deferred.arguments:
        return deferred
    return msgspec.structs.replace(deferred, effective_arguments=to_run)


def _find_listed(listing: ToolListing, tool_name: str) -> ListedTool | None:
    return listing.tools.get(tool_name) or listing.unreachable.get(tool_name)


def _as_model_tool(tool: BuiltInTool) -> ModelTool:
    return ModelTool(tool.name, tool.description, dict(tool.parameters))


def _as_listed_model_tool(listed: ListedTool) -> ModelTool:
    parameters = listed.tool.parameters
    return ModelTool(
        listed.tool.name,
        listed.description,
        parameters if isinstance(parameters, dict) else dict(parameters),
    )
