"""What can be offered of what sources list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dex_agents.tool_sources.contract import SourceTool
from dex_agents.tool_sources.listing import build_listing
from tests.unit.tool_sources.sources import build_tool


@pytest.mark.requirement("tool-names-unique")
def test_the_first_tool_of_a_name_is_offered_and_the_other_is_left_out_with_a_warning() -> None:
    mail, files = build_tool("search", description="mail"), build_tool("search", description="files")
    listing = build_listing([("mail", [mail]), ("files", [files, build_tool("read")])])
    assert {name: (found.source_name, found.description) for name, found in listing.tools.items()} == {
        "search": ("mail", "mail"),
        "read": ("files", "Does read."),
    }
    assert listing.warnings == (
        "the tool 'search' of source 'files' is left out: source 'mail' lists a tool of this name before it",
    )


@pytest.mark.requirement("tool-names-unique")
def test_a_name_of_the_agent_itself_is_not_given_to_a_source() -> None:
    listing = build_listing([("mail", [build_tool("ask_user")])], reserved_names={"ask_user"})
    assert listing.tools == {}
    assert listing.warnings == (
        "the tool 'ask_user' of source 'mail' is left out: a tool of the agent itself has this name",
    )


def test_a_tool_that_is_left_out_takes_no_name_from_a_later_one() -> None:
    bad = build_tool("search", parameters={"type": "object", "default": float("nan")})
    listing = build_listing([("mail", [bad]), ("files", [build_tool("search")])])
    assert listing.tools["search"].source_name == "files"
    assert len(listing.warnings) == 1


def test_a_source_without_an_answer_takes_away_its_own_tools_only() -> None:
    listing = build_listing([("mail", "it is down"), ("files", [build_tool("read")])])
    assert list(listing.tools) == ["read"]
    assert listing.warnings == ("the tools of source 'mail' are left out: it is down",)


class OneMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return {"type": "object", "title": "T"}[key]

    def __iter__(self) -> Any:
        return iter(("type", "title"))

    def __len__(self) -> int:
        return 2


@pytest.mark.case("BR-094")
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}},
        {"type": "object", "allOf": [{"$ref": "#/$defs/gone"}]},
        {"type": "object", "properties": {"a": {"type": "no such type"}}},
        {"type": "object", "description": "NaN and Infinity"},
        OneMapping(),
    ],
)
def test_a_schema_is_offered_as_it_was_listed(parameters: Mapping[str, Any]) -> None:
    listing = build_listing([("s", [build_tool("a", parameters=parameters)])])
    assert listing.tools["a"].tool.parameters is parameters
    assert listing.warnings == ()


def test_a_description_is_made_writable() -> None:
    listing = build_listing([("s", [build_tool("a", description="\ud800!")])])
    assert listing.tools["a"].description == "\ufffd!"


@pytest.mark.case("BR-096")
@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        (build_tool("a b"), "the name must match"),
        (build_tool("a" * 65), "the name must match"),
        (build_tool(3), "the name must match"),  # pyright: ignore[reportArgumentType]
        (build_tool("a", description=None), "the description must be text"),
        (build_tool("a", effect="sometimes"), "'sometimes' is no tool effect"),
        (build_tool("a", reference=7), "the reference must be text of at most 256 characters"),
        (build_tool("a", reference="r" * 257), "the reference must be text of at most 256 characters"),
        (build_tool("a", reference="\ud800"), "the reference must be text of at most 256 characters"),
        (build_tool("a", parameters=None), 'the parameters must be a JSON Schema with "type": "object"'),
        (build_tool("a", parameters={}), 'the parameters must be a JSON Schema with "type": "object"'),
        (build_tool("a", parameters={"type": "array"}), 'a JSON Schema with "type": "object"'),
        (build_tool("a", parameters={"type": "object", "x": {1}}), "cannot be written as JSON"),
        (build_tool("a", parameters={"type": "object", "x": "\udcff"}), "cannot be written as JSON"),
        (build_tool("a", parameters={"type": "object", "x": float("inf")}), "cannot be written as JSON"),
        ({"name": "a"}, "a dict is not a SourceTool"),
    ],
)
def test_a_tool_that_no_provider_would_take_is_left_out_and_the_others_stay(
    tool: SourceTool, problem: str
) -> None:
    listing = build_listing([("s", [tool, build_tool("good")])])
    assert list(listing.tools) == ["good"]
    (warning,) = listing.warnings
    assert warning.startswith("the tool ")
    assert problem in warning


def test_parameters_that_contain_themselves_are_left_out() -> None:
    parameters: dict[str, Any] = {"type": "object"}
    parameters["properties"] = parameters
    listing = build_listing([("s", [build_tool("a", parameters=parameters)])])
    assert listing.tools == {}
    assert "cannot be written as JSON" in listing.warnings[0]
