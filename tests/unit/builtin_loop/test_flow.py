"""The session Flow of an agent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dex_agents.builtin_loop import (
    AgentDefinition,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
    function_tool,
)
from dex_agents.errors import InvalidInputError
from dex_agents.session.options import AgentSessionOptions
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy


@function_tool
async def look() -> str:
    """Look."""
    return ""


DEFINITION = AgentDefinition(
    name="a",
    model=ScriptedModelClient(lambda request: ScriptedModelReply(text="ok")),
    tools=(look,),
    tool_policies={"look": ToolPolicy(effect=ToolEffect.READ)},
    default_tool_effect=ToolEffect.IDEMPOTENT_WRITE,
    built_in_tools=["write_todos", "ask_user"],
    plan_mode_enabled=True,
    interrupt_deadline=timedelta(hours=1),
)


def test_the_session_takes_what_the_definition_says() -> None:
    options = AgentSessionOptions(cancel_grace=timedelta(seconds=5))
    flow = create_builtin_agent_session_flow(DEFINITION, "SupportAgent", options=options)
    assert flow.get_flow_type() == "SupportAgent"
    assert flow.options.tool_policies == {"look": ToolPolicy(effect=ToolEffect.READ)}
    assert flow.options.default_tool_effect is ToolEffect.IDEMPOTENT_WRITE
    assert flow.options.built_in_tools == ("ask_user", "write_todos")
    assert flow.options.plan_mode_enabled
    assert flow.options.interrupt_deadline == timedelta(hours=1)
    assert flow.options.cancel_grace == timedelta(seconds=5)


@pytest.mark.parametrize(
    "options",
    [
        AgentSessionOptions(tool_policies={"look": ToolPolicy()}),
        AgentSessionOptions(default_tool_effect=ToolEffect.READ),
        AgentSessionOptions(built_in_tools=("ask_user",)),
        AgentSessionOptions(interrupt_deadline=timedelta(hours=2)),
    ],
)
def test_options_that_the_definition_says_are_refused(options: AgentSessionOptions) -> None:
    with pytest.raises(InvalidInputError, match="in the agent's definition"):
        create_builtin_agent_session_flow(DEFINITION, "SupportAgent", options=options)
