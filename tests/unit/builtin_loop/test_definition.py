"""What an agent may be, checked when it is defined."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from dex_agents.builtin_loop import AgentDefinition, ScriptedModelClient, ScriptedModelReply, function_tool
from dex_agents.errors import InvalidInputError, ToolDeclarationError
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy
from tests.unit.tool_sources.sources import ListedSource

MODEL = ScriptedModelClient(lambda request: ScriptedModelReply(text="ok"))


@function_tool
async def look() -> str:
    """Look."""
    return ""


def test_the_defaults_are_those_of_the_documentation() -> None:
    definition = AgentDefinition(name="a", model=MODEL)
    assert dataclasses.asdict(dataclasses.replace(definition, model=MODEL)) | {"model": None} == {
        "name": "a",
        "model": None,
        "instructions": "",
        "tools": (),
        "tool_sources": (),
        "tool_listing_timeout": timedelta(seconds=10),
        "built_in_tools": (),
        "plan_mode_enabled": False,
        "planning_tool_choice": "auto",
        "interrupt_deadline": None,
        "tool_policies": {},
        "max_model_calls_per_turn": 100,
        "default_tool_effect": ToolEffect.UNCLASSIFIED,
        "tool_output_ascii": True,
        "resolve_model": None,
        "decide_turn_continuation": None,
        "compaction": None,
        "media_store": None,
        "spend_limiter": None,
    }


def test_a_definition_keeps_copies_of_its_collections() -> None:
    tools = [look]
    policies = {"look": ToolPolicy(requires_approval=False)}
    definition = AgentDefinition(name="a", model=MODEL, tools=tools, tool_policies=policies)
    tools.clear()
    policies.clear()
    assert definition.tools == (look,)
    assert definition.tool_policies == {"look": ToolPolicy(requires_approval=False)}


class NoProvider:
    api = "x"

    async def generate(self) -> None: ...


class NoGenerate:
    provider = api = "x"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": None}, "name"),
        ({"instructions": 3}, "instructions"),
        ({"model": None}, "model"),
        ({"model": NoProvider()}, "model"),
        ({"model": NoGenerate()}, "model"),
        ({"max_model_calls_per_turn": 0}, "max_model_calls_per_turn"),
        ({"max_model_calls_per_turn": True}, "max_model_calls_per_turn"),
        ({"max_model_calls_per_turn": 1.5}, "max_model_calls_per_turn"),
        ({"default_tool_effect": "sometimes"}, "default_tool_effect"),
        ({"tool_policies": {"lock": ToolPolicy()}}, "tool_policies"),
        ({"tools": (look,), "tool_policies": {"look": "read"}}, "tool_policies"),
        ({"tool_sources": (object(),)}, "tool_sources"),
        ({"tool_sources": (ListedSource("a"), ListedSource("a"))}, "tool_sources"),
        ({"tool_listing_timeout": timedelta()}, "tool_listing_timeout"),
        ({"built_in_tools": ("ask",)}, "built_in_tools"),
        ({"plan_mode_enabled": True}, "plan_mode_enabled"),
        ({"planning_tool_choice": "none"}, "planning_tool_choice"),
        ({"interrupt_deadline": timedelta(milliseconds=999)}, "interrupt_deadline"),
        (
            {
                "tool_sources": (ListedSource("a"),),
                "built_in_tools": ("ask_user",),
                "tool_policies": {"ask_user": ToolPolicy()},
            },
            "tool_policies",
        ),
    ],
)
def test_a_field_that_breaks_a_rule_is_named(changes: dict[str, Any], field: str) -> None:
    fields: dict[str, Any] = {"name": "a", "model": MODEL}
    with pytest.raises(InvalidInputError) as caught:
        AgentDefinition(**(fields | changes))
    assert caught.value.field == field


def test_two_tools_of_one_name_are_refused() -> None:
    other = function_tool(
        name="look", description="", parameters={"type": "object"}, execute=lambda arguments, context: ""
    )
    with pytest.raises(ToolDeclarationError, match="another tool of the agent has this name") as caught:
        AgentDefinition(name="a", model=MODEL, tools=(look, other))
    assert caught.value.tool_name == "look"


def test_a_plain_function_is_not_a_tool() -> None:
    def plain() -> str:
        return ""

    tools: Any = (plain,)
    with pytest.raises(ToolDeclarationError, match="make one with function_tool") as caught:
        AgentDefinition(name="a", model=MODEL, tools=tools)
    assert caught.value.tool_name == "plain"


def test_a_function_tool_cannot_have_the_name_of_a_built_in_tool_of_its_agent() -> None:
    mine = function_tool(
        name="ask_user", description="", parameters={"type": "object"}, execute=lambda arguments, context: ""
    )
    AgentDefinition(name="a", model=MODEL, tools=(mine,), built_in_tools=("write_todos",))
    with pytest.raises(ToolDeclarationError, match="a built-in tool of the agent has this name") as caught:
        AgentDefinition(name="a", model=MODEL, tools=(mine,), built_in_tools=("ask_user",))
    assert caught.value.tool_name == "ask_user"
