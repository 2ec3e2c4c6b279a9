"""An agent definition → a session Flow that a Worker can register."""

from __future__ import annotations

from dataclasses import replace

from dex_agents.builtin_loop.definition import AgentDefinition
from dex_agents.builtin_loop.runner import BuiltinLoopAgentRunner
from dex_agents.errors import InvalidInputError
from dex_agents.session.flow import AgentSessionFlow, create_agent_session_flow
from dex_agents.session.options import AgentSessionOptions

__all__ = ["create_builtin_agent_session_flow"]


def create_builtin_agent_session_flow(
    definition: AgentDefinition, flow_type: str, *, options: AgentSessionOptions | None = None
) -> AgentSessionFlow:
    """Make the session Flow of an agent.

    Args:
        definition: The agent; its tool policies and its default effect become the session's.
        flow_type: Names this kind of agent on the engine; Workers with the same name share its sessions.
        options: The session's other options, such as time limits; its compaction and its spend limiter are
            used where the definition has none.

    Raises:
        InvalidInputError: `flow_type` is blank, or `options` has tool policies or a default effect of its
            own: for an agent the definition says both.
    """
    chosen = AgentSessionOptions() if options is None else options
    if chosen.tool_policies:
        raise InvalidInputError("options", "tool_policies belong in the agent's definition")
    if chosen.default_tool_effect != AgentSessionOptions().default_tool_effect:
        raise InvalidInputError("options", "default_tool_effect belongs in the agent's definition")
    return create_agent_session_flow(
        BuiltinLoopAgentRunner(definition),
        flow_type,
        replace(
            chosen,
            tool_policies=definition.tool_policies,
            default_tool_effect=definition.default_tool_effect,
            compaction=definition.compaction or chosen.compaction,
            spend_limiter=definition.spend_limiter or chosen.spend_limiter,
        ),
    )
