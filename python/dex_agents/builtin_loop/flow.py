"""An agent definition → a session Flow that a Worker can register."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dex_agents.builtin_loop.definition import AgentDefinition
from dex_agents.builtin_loop.runner import BuiltinLoopAgentRunner
from dex_agents.errors import InvalidInputError
from dex_agents.session.flow import AgentSessionFlow, create_agent_session_flow
from dex_agents.session.options import AgentSessionOptions

__all__ = ["create_builtin_agent_session_flow"]

_SAID_BY_THE_DEFINITION: Final = (
    "tool_policies",
    "default_tool_effect",
    "built_in_tools",
    "plan_mode_enabled",
    "interrupt_deadline",
)


def create_builtin_agent_session_flow(
    definition: AgentDefinition, flow_type: str, *, options: AgentSessionOptions | None = None
) -> AgentSessionFlow:
    """Make the session Flow of an agent.

    Args:
        definition: The agent; what it says about tools, plans and deadlines becomes the session's.
        flow_type: Names this kind of agent on the engine; Workers with the same name share its sessions.
        options: The session's other options, such as time limits; its compaction and its spend limiter are
            used where the definition has none.

    Raises:
        InvalidInputError: `flow_type` is blank, or `options` sets what the definition of an agent says.
    """
    chosen = AgentSessionOptions() if options is None else options
    untouched = AgentSessionOptions()
    for name in _SAID_BY_THE_DEFINITION:
        if getattr(chosen, name) != getattr(untouched, name):
            raise InvalidInputError("options", f"{name} belongs in the agent's definition")
    return create_agent_session_flow(
        BuiltinLoopAgentRunner(definition),
        flow_type,
        replace(
            chosen,
            compaction=definition.compaction or chosen.compaction,
            spend_limiter=definition.spend_limiter or chosen.spend_limiter,
            **{name: getattr(definition, name) for name in _SAID_BY_THE_DEFINITION},
        ),
    )
