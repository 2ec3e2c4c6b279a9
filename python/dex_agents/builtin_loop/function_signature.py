"""A Python function's signature and docstring → the JSON Schema of its arguments, and a call from them.

msgspec writes the schema and converts the arguments, so a parameter may have any type that msgspec knows:
dataclasses, Structs, literals, dates, `Annotated[int, msgspec.Meta(ge=1)]` and so on.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError
from dex_agents.builtin_loop.tool_call_context import ToolCallContext
from dex_agents.errors import ToolDeclarationError

__all__ = ["FunctionSignature", "read_function_signature"]

_SECTION: Final = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes|Durability):\s*$"
)
_DESCRIBED: Final = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_ERROR_PATH: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_PATH_PART: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


class FunctionSignature(msgspec.Struct, frozen=True):
    """What a function says about itself.

    Attributes:
        description: Its docstring up to the first section, `""` without one.
        parameters: The JSON Schema of its arguments.
        decode_arguments: Checked JSON arguments → the function's own types; raises `ArgumentsProblemError`.
        bind: Calls the function with what `decode_arguments` returned.
    """

    description: str
    parameters: dict[str, Any]
    decode_arguments: Callable[[dict[str, Any]], Any]
    bind: Callable[[Any, ToolCallContext], Any]


def read_function_signature(tool_name: str, function: Callable[..., Any]) -> FunctionSignature:
    """Read a function's signature.

    Args:
        tool_name: For errors.
        function: The function. One parameter may be annotated `ToolCallContext`: it gets the context and is
            no argument of the tool.

    Raises:
        ToolDeclarationError: A parameter has no annotation, a type or a default that a JSON Schema cannot
            express, or is `*args` or `**kwargs`.
    """
    description, parameter_descriptions = _read_docstring(inspect.getdoc(function) or "")
    try:
        signature = inspect.signature(function)
        hints = _read_parameter_types(_annotated_function(function))
    except (NameError, TypeError, ValueError) as error:
        raise ToolDeclarationError(tool_name, f"its signature cannot be read: {error}") from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    positional: list[str] = []
    context_name: str | None = None
    for parameter in signature.parameters.values():
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ToolDeclarationError(tool_name, f"parameter {name!r}: a tool cannot take *args or **kwargs")
        if name not in hints:
            raise ToolDeclarationError(tool_name, f"parameter {name!r} has no type annotation")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(name)
        if hints[name] is ToolCallContext:
            if context_name is not None:
                raise ToolDeclarationError(
                    tool_name, f"parameters {context_name!r} and {name!r} both take the context"
                )
            context_name = name
        elif parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], _default_of(tool_name, parameter)))
    arguments = _define_arguments(tool_name, fields)
    return FunctionSignature(
        description=description,
        parameters=_describe_arguments(tool_name, arguments, parameter_descriptions),
        decode_arguments=lambda value: _convert(value, arguments),
        bind=_Binding(function, tuple(name for name, *_ in fields), tuple(positional), context_name),
    )


def _read_parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    # What a tool returns is not part of its schema, and may well be a name that exists for type checkers
    # only.
    def parameters() -> None: ...

    parameters.__annotations__ = {
        name: annotation for name, annotation in inspect.get_annotations(function).items() if name != "return"
    }
    module_names = getattr(inspect.unwrap(function), "__globals__", None)
    return typing.get_type_hints(parameters, globalns=module_names, include_extras=True)


def _annotated_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """What holds the annotations: the function itself, or the `__call__` of an object."""
    if isinstance(function, functools.partial):
        return _annotated_function(function.func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _default_of(tool_name: str, parameter: inspect.Parameter) -> Any:
    default: Any = parameter.default
    try:
        msgspec.to_builtins(default)
    except (TypeError, ValueError, RecursionError):
        raise ToolDeclarationError(
            tool_name, f"parameter {parameter.name!r}: a {type(default).__name__} cannot be a default"
        ) from None
    if isinstance(default, list | dict | set | bytearray):
        # msgspec takes an empty one as its own default and refuses the others: each call gets a copy.
        return msgspec.field(default_factory=lambda: cast("Any", default).copy())
    return default


def _define_arguments(
    tool_name: str, fields: list[tuple[str, Any] | tuple[str, Any, Any]]
) -> type[msgspec.Struct]:
    try:
        return msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except (TypeError, ValueError) as error:
        raise ToolDeclarationError(tool_name, f"its parameters cannot be described: {error}") from error


def _describe_arguments(
    tool_name: str, arguments: type[msgspec.Struct], descriptions: dict[str, str]
) -> dict[str, Any]:
    try:
        (reference,), definitions = msgspec.json.schema_components(
            (arguments,), ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError) as error:
        raise ToolDeclarationError(tool_name, f"its parameters cannot be described: {error}") from error
    top_level: str = reference["$ref"]
    schema: dict[str, Any] = definitions.pop(top_level.removeprefix("#/$defs/"))
    schema.pop("title", None)
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for name, described in properties.items():
        if name in descriptions:
            described.setdefault("description", descriptions[name])
    if definitions:
        schema["$defs"] = definitions
    return schema


def _convert(value: dict[str, Any], arguments: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        try:
            return msgspec.convert(value, arguments)
        except msgspec.ValidationError:
            # JSON Schema counts 1.0 as an integer, msgspec does only when it is not strict.
            return msgspec.convert(value, arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ArgumentsProblemError(_with_json_pointer(str(error))) from None


def _with_json_pointer(message: str) -> str:
    found = _ERROR_PATH.search(message)
    if found is None:
        return message
    parts = [name or index for name, index in _PATH_PART.findall(found.group(1))]
    pointer = "".join(f"/{part}" for part in parts)
    text = message[: found.start()].replace("`", "")
    return f"{pointer}: {text}" if pointer else text


class _Binding(msgspec.Struct, frozen=True):
    """Calls a function with arguments that are held by name."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    positional: tuple[str, ...]
    context_name: str | None

    def __call__(self, value: Any, context: ToolCallContext) -> Any:
        by_name: dict[str, Any] = {name: getattr(value, name) for name in self.names}
        if self.context_name is not None:
            by_name[self.context_name] = context
        return self.function(*[by_name.pop(name) for name in self.positional], **by_name)


def _read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a Google docstring into its prose and the descriptions of its `Args`."""
    prose: list[str] = []
    described: dict[str, list[str]] = {}
    section: str | None = None
    current: list[str] | None = None
    entry_indent = 0
    for line in docstring.splitlines():
        heading = _SECTION.match(line)
        if heading is not None:
            section, current, entry_indent = heading.group(1), None, 0
        elif section is None:
            prose.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            indent = len(line) - len(line.lstrip())
            entry = _DESCRIBED.match(line.strip()) if indent and entry_indent in (0, indent) else None
            if entry is not None:
                entry_indent = indent
                current = described.setdefault(entry.group(1), [])
                current.append(entry.group(2))
            elif current is not None:
                current.append(line.strip())
    return "\n".join(prose).strip(), {name: " ".join(lines).strip() for name, lines in described.items()}
