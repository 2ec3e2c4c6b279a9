"""Whatever a model answers, each of its calls becomes one that the session can take."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.tools.builtin import BUILT_IN_TOOLS
from dex_agents.wire.plans import InteractionMode
from dex_agents.wire.tool_calls import ToolEffect
from tests.unit.builtin_loop.turns import Conversation
from tests.unit.tool_sources.sources import ListedSource, build_tool

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
ODD: dict[str, Any] = {"type": "object", "$ref": "#/$defs/gone"}


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, ordered=True)
async def own(q: str = "") -> str:
    """A tool of the agent itself."""
    return q


SOURCE = ListedSource(
    "s",
    [
        build_tool("look", parameters=SCHEMA),
        build_tool("odd", parameters=ODD, effect=None),
        build_tool("own"),
        build_tool("write", effect=ToolEffect.IDEMPOTENT_WRITE, ordered=True),
    ],
)
KNOWN = ("own", "look", "odd", "write", *BUILT_IN_TOOLS)
ARGUMENTS = st.sampled_from(["{}", '{"q": "a"}', '{"q": 3}', "[]", "{", "null", '{"q": "\\ud800"}', "\ud800"])
CALLS = st.lists(
    st.builds(
        ScriptedToolCall,
        st.sampled_from(KNOWN) | st.text(max_size=70),
        ARGUMENTS | st.text(),
        st.none() | st.text(max_size=3),
    ),
    min_size=1,
    max_size=140,
)


@given(calls=CALLS, mode=st.sampled_from(["default", "plan"]))
def test_every_call_is_refused_or_can_be_taken_as_it_stands(
    calls: list[ScriptedToolCall], mode: InteractionMode
) -> None:
    model = ScriptedModelClient(lambda request: ScriptedModelReply(tool_calls=tuple(calls)))
    definition = AgentDefinition(name="a", model=model, tools=(own,), tool_sources=(SOURCE,))
    conversation = Conversation(BuiltinLoopAgentRunner(definition))
    conversation.built_in_tools = tuple(BUILT_IN_TOOLS.values())
    conversation.interaction_mode = mode
    conversation.begin_turn("hi")
    deferred = asyncio.run(conversation.ask_for_tools()).tool_calls
    assert len(deferred) == len(calls)
    assert len({call.tool_call_id for call in deferred}) == len(calls)
    for position, call in enumerate(deferred):
        assert (call.not_run_reason is not None) == (position >= 128)
        assert call.refusal is None or call.not_run_reason is None
        if call.refusal is not None or call.not_run_reason is not None:
            continue
        allowed = KNOWN if mode == "default" else ("write_todos",)
        assert call.tool_name in allowed
        assert (call.tool_source_reference is not None) == (call.tool_name in ("look", "odd", "write"))
        if call.tool_name not in BUILT_IN_TOOLS:
            to_run = call.arguments if call.effective_arguments is None else call.effective_arguments
            assert isinstance(json.loads(to_run), dict)
            to_run.encode()
