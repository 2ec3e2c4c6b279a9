"""Declaring tools: what is taken from a function, and what is refused at once."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
import pytest

from dex_agents import limits
from dex_agents.builtin_loop import FunctionTool, ToolCallContext, function_tool
from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError
from dex_agents.errors import ToolDeclarationError
from dex_agents.wire.tool_calls import ToolEffect
from tests.unit.builtin_loop.turns import build_execution

if TYPE_CHECKING:
    OnlyForTypeCheckers = str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


class Money(msgspec.Struct):
    cents: Annotated[int, msgspec.Meta(ge=1)]

    def __post_init__(self) -> None:
        if self.cents == 13:
            raise LookupError("unlucky")


def run(arguments: dict[str, Any], context: ToolCallContext) -> Any:
    return arguments


def declare(**changes: Any) -> FunctionTool:
    fields: dict[str, Any] = {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object"},
        "execute": run,
    }
    return cast("Callable[..., FunctionTool]", function_tool)(**(fields | changes))


def build_context() -> ToolCallContext:
    execution = build_execution("look")
    return ToolCallContext(
        **{field.name: getattr(execution, field.name) for field in dataclasses.fields(ToolCallContext)}
    )


def test_the_decorator_reads_name_schema_and_descriptions_from_the_function() -> None:
    @function_tool(effect=ToolEffect.IDEMPOTENT_WRITE, requires_approval=True, ordered=True)
    async def place_order(
        sku: str, count: int = 1, *, colour: Literal["red", "blue"] = "red", context: ToolCallContext
    ) -> str:
        """Place an order.

        It is sent at once.

        Args:
            sku: What to order, as it is
                printed on the box.
            count (int): How many: at least one.
            context: Never shown to the model.

        Returns:
            sku: The number of the order.
        """
        return f"{sku} {count} {colour} {context.flow_id}"

    assert place_order.name == "place_order"
    assert place_order.description == "Place an order.\n\nIt is sent at once."
    assert place_order.effect is ToolEffect.IDEMPOTENT_WRITE
    assert (place_order.requires_approval, place_order.ordered) == (True, True)
    assert place_order.parameters == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "What to order, as it is printed on the box."},
            "count": {"type": "integer", "default": 1, "description": "How many: at least one."},
            "colour": {"enum": ["blue", "red"], "default": "red"},
        },
        "required": ["sku"],
        "additionalProperties": False,
    }


def test_the_decorator_works_without_brackets_and_declares_nothing_then() -> None:
    @function_tool
    def look() -> str:
        """Look."""
        return ""

    assert (look.name, look.effect, look.requires_approval, look.ordered) == ("look", None, None, False)
    assert look.parameters["properties"] == {}


def test_name_and_description_may_be_said_outright() -> None:
    @function_tool(name="other", description="Said.")
    def look() -> str:
        """Look."""
        return ""

    assert (look.name, look.description) == ("other", "Said.")


def test_two_space_docstrings_are_read_too() -> None:
    @function_tool
    def look(key: str, other: str) -> str:
        """Look.

        Args:
          key: First
            note: still first.
          other: Second.
        """
        return key + other

    properties = look.parameters["properties"]
    assert properties["key"]["description"] == "First note: still first."
    assert properties["other"]["description"] == "Second."


async def test_arguments_arrive_as_the_types_that_are_annotated() -> None:
    seen: list[Any] = []

    @function_tool
    async def order(
        lines: list[Line], money: Money, day: date, *, colour: Colour, tags: set[str], note: str | None = None
    ) -> str:
        seen.extend((lines, money, day, colour, tags, note))
        return ""

    assert order.parameters["$defs"].keys() == {"Line", "Money", "Colour"}
    arguments = order.prepare_arguments(
        '{"lines": [{"sku": "a"}], "money": {"cents": 5}, "day": "2026-01-02", '
        '"colour": "red", "tags": ["x"]}'
    )
    await order.execute(arguments, build_context())
    assert seen == [[Line("a")], Money(5), date(2026, 1, 2), Colour.RED, {"x"}, None]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"money": {"cents": 0}}', "/money/cents: must be at least 1"),
        ('{"money": {"cents": 13}}', "LookupError: unlucky"),
        ('{"money": {"cents": 5}, "day": "soon"}', "/day: Invalid RFC3339 encoded date"),
        ('{"money": {"cents": 1e3}}', None),
    ],
)
def test_what_the_schema_cannot_say_is_checked_by_the_conversion(arguments: str, problem: str | None) -> None:
    @function_tool
    def pay(money: Money, day: date | None = None) -> str:
        return f"{money} {day}"

    if problem is None:
        assert pay.prepare_arguments(arguments) == arguments
        return
    with pytest.raises(ArgumentsProblemError) as caught:
        pay.prepare_arguments(arguments)
    assert str(caught.value) == problem


async def test_a_mutable_default_is_fresh_for_every_call() -> None:
    @function_tool
    async def collect(item: str, into: list[str] = ["start"]) -> list[str]:  # noqa: B006
        into.append(item)
        return into

    for _ in range(2):
        assert await collect.execute('{"item": "x"}', build_context()) == ["start", "x"]


async def test_positional_only_parameters_methods_partials_and_callables_are_functions_too() -> None:
    class Shop:
        def find(self, key: str, /, limit: int = 1) -> str:
            """Find."""
            return f"{key} {limit}"

        async def __call__(self, key: str) -> str:
            """Call."""
            return f"called {key}"

    def scale(factor: int, value: int) -> int:
        return factor * value

    find = function_tool(Shop().find)
    assert await find.execute('{"key": "a", "limit": 2}', build_context()) == "a 2"
    called = function_tool(name="shop")(Shop())
    assert await called.execute('{"key": "a"}', build_context()) == "called a"
    triple = function_tool(name="triple")(functools.partial(scale, 3))
    assert await triple.execute('{"value": 2}', build_context()) == 6


@pytest.mark.parametrize("name", ["", " ", "a b", "x" * 65, "caf\u00e9", "a.b", "a\n"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ToolDeclarationError, match="the name must match") as caught:
        declare(name=name)
    assert caught.value.tool_name == name


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"type": "object", "properties": {"a": {"type": "integr"}}}, "parameters: /properties/a/type: "),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}, "/$defs/no"),
        ({"type": "object", "properties": {"a": {"$ref": "http://localhost:1/x"}}}, "http://localhost:1/x"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "file:///etc/passwd"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"type": "object", "$schema": "urn:nobody"}, "urn:nobody"),
        ({"type": "object", "x": (1,)}, "parameters: /x: a tuple is not JSON"),
        ({"type": "object", "x": {1: 2}}, "parameters: /x: a int is not JSON"),
        ({"type": "object", "x": float("nan")}, "parameters: /x: JSON has no nan"),
        ({"type": "object", "x": "\ud800"}, "parameters: /x: the text holds a lone surrogate"),
        ({"type": "object", "x": "x" * limits.MAX_TOOL_SCHEMA_BYTES}, "bytes, the limit is 262144"),
        ({"type": "array"}, 'parameters: /type: must be "object"'),
        ({}, 'parameters: /type: must be "object"'),
        ([], "parameters: must be a JSON Schema, as a mapping"),
        (None, "belong together"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_naming_where(parameters: Any, problem: str) -> None:
    with pytest.raises(ToolDeclarationError) as caught:
        declare(parameters=parameters)
    assert problem in str(caught.value)
    assert caught.value.tool_name == "look"


def test_a_schema_never_reads_a_file(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"type": "string"}')
    with pytest.raises(ToolDeclarationError, match="etrieval is disabled"):
        declare(parameters={"type": "object", "properties": {"a": {"$ref": other.as_uri()}}})


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(limits.MAX_JSON_DEPTH):
        schema = {"not": schema}
    with pytest.raises(ToolDeclarationError, match="nested more than 128 levels"):
        declare(parameters={"type": "object", "not": schema})


def test_a_schema_is_kept_as_it_was_declared() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": [1]}}, "x-note": [1]}
    tool = declare(parameters=schema)
    schema["properties"]["a"]["enum"].append(2)
    assert tool.parameters == {"type": "object", "properties": {"a": {"enum": [1]}}, "x-note": [1]}
    with pytest.raises(ArgumentsProblemError):
        tool.prepare_arguments('{"a": 2}')


async def prepare_later(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"execute": "run"}, "execute is not callable"),
        ({"execute": None}, "belong together"),
        ({"description": None}, "belong together"),
        ({"effect": "sometimes"}, "effect: 'sometimes' is none of read, idempotent_write"),
        ({"prepare_arguments": 3}, "prepare_arguments is not callable"),
        ({"prepare_arguments": prepare_later}, "prepare_arguments must be a sync function"),
    ],
)
def test_a_tool_that_is_declared_wrongly_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolDeclarationError) as caught:
        declare(**changes)
    assert problem in str(caught.value)


def test_a_function_whose_signature_says_too_little_is_refused() -> None:
    def no_annotation(key: str) -> str:
        return key

    no_annotation.__annotations__.pop("key")

    def star(*keys: str) -> str:
        return ""

    def star_star(**keys: str) -> str:
        return ""

    def two_contexts(first: ToolCallContext, second: ToolCallContext) -> str:
        return ""

    def no_schema(key: complex) -> str:
        return ""

    def strange_default(key: Any = object()) -> str:  # noqa: B008
        return ""

    def unknown_name(key: str) -> str:
        return key

    unknown_name.__annotations__["key"] = "NotThere"

    def generate() -> Iterator[str]:
        yield ""

    async def generate_async() -> AsyncIterator[str]:
        yield ""

    refused: list[tuple[Any, str]] = [
        (no_annotation, "parameter 'key' has no type annotation"),
        (star, "parameter 'keys': a tool cannot take *args or **kwargs"),
        (star_star, "parameter 'keys': a tool cannot take *args or **kwargs"),
        (two_contexts, "parameters 'first' and 'second' both take the context"),
        (no_schema, "its parameters cannot be described"),
        (strange_default, "parameter 'key': a object cannot be a default"),
        (unknown_name, "its signature cannot be read: name 'NotThere' is not defined"),
        (generate, "a generator cannot be a tool"),
        (generate_async, "a generator cannot be a tool"),
        (3, "it is not a function"),
    ]
    for function, problem in refused:
        with pytest.raises(ToolDeclarationError) as caught:
            function_tool(function)
        assert problem in str(caught.value)


def leave_out(arguments: dict[str, Any]) -> Any:
    raise KeyError("old")


def returning(prepared: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda arguments: prepared


def return_awaitable(arguments: dict[str, Any]) -> Any:
    return prepare_later(arguments)


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (leave_out, "they could not be converted: KeyError: 'old'"),
        (return_awaitable, "they could not be converted: prepare_arguments returned an awaitable"),
        (returning([1]), "they are not a JSON object"),
        (returning(None), "they are not a JSON object"),
        (returning({"a": float("inf")}), "they hold a number that JSON cannot carry"),
        (returning({"a": object()}), "they could not be converted: TypeError: "),
        (returning({"a": 1}), "/key: is required"),
    ],
)
def test_arguments_that_cannot_be_prepared_fail_like_arguments_that_do_not_fit(
    prepare: Any, problem: str
) -> None:
    tool = declare(
        parameters={"type": "object", "properties": {"key": {}}, "required": ["key"]},
        prepare_arguments=prepare,
    )
    with pytest.raises(ArgumentsProblemError) as caught:
        tool.prepare_arguments('{"x": 1}')
    assert str(caught.value).startswith(problem)


def test_very_long_arguments_report_their_first_problem_only() -> None:
    tool = declare(
        parameters={"type": "object", "properties": {"v": {"type": "array", "items": {"type": "string"}}}}
    )
    with pytest.raises(ArgumentsProblemError) as caught:
        tool.prepare_arguments(json.dumps({"v": [1] * 100_000}))
    assert str(caught.value) == "/v/0: expected string, got integer"


def test_a_problem_never_repeats_a_long_value_or_a_long_key() -> None:
    tool = declare(
        parameters={
            "type": "object",
            "properties": {"v": {"const": "y" * 500}},
            "additionalProperties": False,
        }
    )
    with pytest.raises(ArgumentsProblemError) as caught:
        tool.prepare_arguments(json.dumps({"v": "x" * 9000, "k" * 9000: 1}))
    assert len(str(caught.value)) < 1000


def test_what_a_tool_returns_need_not_be_a_name_that_exists_at_run_time() -> None:
    @function_tool(effect=ToolEffect.READ)
    def look(order_id: str) -> OnlyForTypeCheckers:
        return order_id

    assert look.parameters["required"] == ["order_id"]
