"""What an agent is: its instructions, its model, its tools and their policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast, get_args

from dex_agents.builtin_loop.continuation import TurnContinuationHook
from dex_agents.builtin_loop.contract import ModelClient, ToolChoice
from dex_agents.builtin_loop.function_tool import FunctionTool
from dex_agents.errors import InvalidInputError, ToolDeclarationError
from dex_agents.limits import TOOL_LISTING_SECONDS
from dex_agents.media.contract import MediaStore
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.spend import SpendLimiter
from dex_agents.tool_sources.contract import ToolSource, require_tool_sources
from dex_agents.tools.builtin import require_built_in_tools
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy

__all__ = ["AgentDefinition", "InstructionContext", "find_model_client_problem"]


@dataclass(frozen=True, kw_only=True)
class InstructionContext:
    """What a function of instructions may look at.

    Attributes:
        flow_id: The session ID.
        turn_id: The turn, `turn-<n>`.
        session_settings: The session's settings as they are now; `{}` when there are none.
    """

    flow_id: str
    turn_id: str
    session_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    """An agent; checked when it is made, never inside a running turn.

    Attributes:
        name: The agent's name; not blank.
        instructions: The system text of every model call, or a sync function that returns it. A function runs
            before each model call and must be free of side effects. `""` sends none.
        model: Calls the model; shared by all sessions of the agent.
        tools: What the model may call; no two of one name.
        tool_sources: Where tools come from that are known at run time only, listed before every model call.
            No two of one name. Where names collide, a tool of the agent itself wins, then the first source.
        tool_listing_timeout: How long a model call waits for the listing of a source before it goes on
            without its tools.
        built_in_tools: Names of the tools that the session itself runs: `ask_user`, `durable_wait`,
            `write_todos`. No tool of `tools` has one of these names.
        plan_mode_enabled: Whether messages may ask for a plan; needs `write_todos`.
        planning_tool_choice: `required` makes the model of a turn that plans write a plan before it may
            answer; `auto` lets it answer instead, with a question say. Not every model takes `required`.
        interrupt_deadline: How long an approval or a question waits before it counts as decided by nobody, at
            least a second; `None` for ever.
        tool_policies: By tool name; they win over a tool's own effect and approval. Names of tools that a
            source lists cannot be checked before they are listed.
        max_model_calls_per_turn: After this many calls the next one offers no tools, so that the model must
            answer; at least 1.
        default_tool_effect: The effect of a tool that declares none.
        tool_output_ascii: Whether results that are not strings are stored with characters above ASCII as
            escapes, as `json.dumps` does. `False` keeps them readable, at fewer tokens for most scripts.
        resolve_model: Chooses the model by the session's settings, for every model call, summary and
            estimate; sync and free of side effects. `None` uses `model` always. Native output of one provider
            is not sent to another, so a session may change its model between calls and come back.
        compaction: Keeps the model's input below its context window; `None` never shortens it.
        spend_limiter: Asked before each model call and told after it; `None` counts nothing.
        media_store: Keeps the images of messages and of tool results; `None` takes no images.
        decide_turn_continuation: Says at the end of each iteration whether the turn ends or goes on; see
            `continuation`.
    """

    name: str
    model: ModelClient
    instructions: str | Callable[[InstructionContext], str] = ""
    tools: Sequence[FunctionTool] = ()
    tool_sources: Sequence[ToolSource] = ()
    tool_listing_timeout: timedelta = timedelta(seconds=TOOL_LISTING_SECONDS)
    built_in_tools: Collection[str] = ()
    plan_mode_enabled: bool = False
    planning_tool_choice: ToolChoice = "auto"
    interrupt_deadline: timedelta | None = None
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict[str, ToolPolicy])
    max_model_calls_per_turn: int = 100
    default_tool_effect: ToolEffect = ToolEffect.UNCLASSIFIED
    tool_output_ascii: bool = True
    resolve_model: Callable[[Mapping[str, Any]], ModelClient] | None = None
    decide_turn_continuation: TurnContinuationHook | None = None
    compaction: CompactionPolicy | None = None
    spend_limiter: SpendLimiter | None = None
    media_store: MediaStore | None = None

    def __post_init__(self) -> None:
        """Check every field and keep copies of the collections.

        Raises:
            InvalidInputError: A field breaks a rule; the text names it.
            ToolDeclarationError: Two tools have one name, or something is not a tool.
        """
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "tool_sources", require_tool_sources("tool_sources", self.tool_sources))
        object.__setattr__(self, "tool_policies", dict(self.tool_policies))
        built_in = require_built_in_tools("built_in_tools", self.built_in_tools)
        object.__setattr__(self, "built_in_tools", tuple(tool.name for tool in built_in))
        _require_valid(self)


def _require_valid(definition: AgentDefinition) -> None:
    # Types are looked at too: the fields come from an application that may not be type checked.
    name, instructions = cast("Any", definition.name), cast("Any", definition.instructions)
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError("name", "must be text that is not blank")
    if not isinstance(instructions, str) and not callable(instructions):
        raise InvalidInputError("instructions", "must be text or a function")
    _require_model_client(definition.model)
    limit = cast("Any", definition.max_model_calls_per_turn)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidInputError(
            "max_model_calls_per_turn", f"must be an integer of at least 1, got {limit!r}"
        )
    if definition.default_tool_effect not in tuple(ToolEffect):
        raise InvalidInputError(
            "default_tool_effect", f"{definition.default_tool_effect!r} is no tool effect"
        )
    if definition.media_store is not None and not isinstance(cast("Any", definition.media_store), MediaStore):
        raise InvalidInputError("media_store", "must have put_image and get_image")
    for hook in ("resolve_model", "decide_turn_continuation"):
        if getattr(definition, hook) is not None and not callable(getattr(definition, hook)):
            raise InvalidInputError(hook, "must be a function")
    _require_valid_session(definition)
    names: set[str] = set()
    for tool in definition.tools:
        if not isinstance(cast("Any", tool), FunctionTool):
            raise ToolDeclarationError(
                str(getattr(tool, "__name__", tool)), "it is not a tool; make one with function_tool"
            )
        if tool.name in names:
            raise ToolDeclarationError(tool.name, "another tool of the agent has this name")
        if tool.name in definition.built_in_tools:
            raise ToolDeclarationError(tool.name, "a built-in tool of the agent has this name")
        names.add(tool.name)
    for tool_name, policy in definition.tool_policies.items():
        if tool_name in definition.built_in_tools:
            raise InvalidInputError("tool_policies", f"the built-in tool {tool_name!r} has no policy")
        if tool_name not in names and not definition.tool_sources:
            raise InvalidInputError("tool_policies", f"the agent has no tool named {tool_name!r}")
        if not isinstance(cast("Any", policy), ToolPolicy):
            raise InvalidInputError("tool_policies", f"the policy of {tool_name!r} is not a ToolPolicy")


def _require_valid_session(definition: AgentDefinition) -> None:
    if definition.planning_tool_choice not in get_args(ToolChoice):
        raise InvalidInputError(
            "planning_tool_choice", f"{definition.planning_tool_choice!r} is none of auto, required"
        )
    if definition.tool_listing_timeout <= timedelta():
        raise InvalidInputError("tool_listing_timeout", "must be more than zero")
    # The options have the same fields, and their rules for them.
    AgentSessionOptions(
        built_in_tools=definition.built_in_tools,
        plan_mode_enabled=definition.plan_mode_enabled,
        interrupt_deadline=definition.interrupt_deadline,
    )


def _require_model_client(model: Any) -> None:
    problem = find_model_client_problem(model)
    if problem is not None:
        raise InvalidInputError("model", problem)


def find_model_client_problem(model: Any) -> str | None:
    """Return what keeps a value from being a `ModelClient`, or `None`."""
    for attribute in ("provider", "api"):
        value = getattr(model, attribute, None)
        if not isinstance(value, str) or not value:
            return f"{attribute} must be text that is not empty"
    return None if callable(getattr(model, "generate", None)) else "it has no method generate"
