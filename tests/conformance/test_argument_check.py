"""What a model reads about arguments that do not fit, through a function tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dex_agents.builtin_loop import ToolCallContext, function_tool
from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError


class Given(msgspec.Struct):
    schema: dict[str, Any]
    arguments: str


class Case(msgspec.Struct):
    name: str
    given: Given
    expect: str | None


class Vectors(msgspec.Struct):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "argument_check.json").read_bytes(), type=Vectors
)


def run(arguments: dict[str, Any], context: ToolCallContext) -> str:
    return f"{arguments} {context}"


@pytest.mark.case("BR-093")
@pytest.mark.case("BR-094")
@pytest.mark.case("BR-095")
@pytest.mark.requirement("arguments-strict")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in VECTORS.cases])
def test_arguments_are_checked_as_pinned(case: Case) -> None:
    tool = function_tool(name="check", description="", parameters=case.given.schema, execute=run)
    if case.expect is None:
        assert tool.prepare_arguments(case.given.arguments) == case.given.arguments
        return
    with pytest.raises(ArgumentsProblemError) as caught:
        tool.prepare_arguments(case.given.arguments)
    assert str(caught.value) == case.expect
