"""The check of tool arguments against a JSON Schema, with texts of our own for what a model reads.

`jsonschema-rs` decides; one published rule differs from it: `enum` and `const` compare as Python's `==`
does, so that `true` matches `1` and `[0]` matches `[false]`. A schema is compiled once, without network or
files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import jsonschema_rs

from dex_agents import limits
from dex_agents.builtin_loop.json_values import is_json_array, is_json_object
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates

__all__ = ["ArgumentSchema", "SchemaProblemError", "format_json_pointer"]

_MAX_PROBLEMS: Final = 3
_MAX_COLLECTED: Final = 100
_MAX_CHARACTERS_FOR_ALL_PROBLEMS: Final = 64 * 1024
_MAX_VALUE_BYTES: Final = 60
_MAX_LISTED_VALUES: Final = 20
_MAX_PROBLEM_BYTES: Final = 600
_REGEX: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)


class SchemaProblemError(Exception):
    """A schema cannot be used; the text says where and why."""


class ArgumentSchema:
    """A JSON Schema that arguments are checked against.

    The dialect is the one that `$schema` names, 2020-12 when it names none. `format` is a hint, not checked.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile a schema.

        Args:
            schema: A JSON object within `limits.MAX_TOOL_SCHEMA_BYTES` and `limits.MAX_JSON_DEPTH`.

        Raises:
            SchemaProblemError: It is not a valid schema, or refers to anything outside itself.
        """
        plain = dict(schema)
        _require_bounded(plain)
        try:
            self._validator = jsonschema_rs.validator_for(
                plain,
                offline=True,
                pattern_options=_REGEX,
                keywords={"enum": _PythonEnum, "const": _PythonConst} if _compares_numbers(plain) else None,
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaProblemError(
                _at(format_json_pointer(error.instance_path), _bounded(error.message))
            ) from None
        except (ValueError, TypeError) as error:
            raise SchemaProblemError(_bounded(str(error))) from None

    def find_problem(self, value: Any, *, text_length: int = 0) -> str | None:
        """Say what is wrong with a value.

        Args:
            value: A JSON value, at most `limits.MAX_JSON_DEPTH` deep.
            text_length: How long its text is. Of a very long one only the first problem is sought, since
                each element of an array can be a problem of its own.

        Returns:
            At most three problems, each `<JSON pointer>: <message>` (without a pointer when it is the value
            as a whole), sorted by pointer; or `None`.
        """
        if self._validator.is_valid(value):
            return None
        if text_length > _MAX_CHARACTERS_FOR_ALL_PROBLEMS:
            try:
                self._validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                return _format_problems([error])
        return _format_problems(self._validator.iter_errors(value))


def format_json_pointer(path: Iterable[str | int]) -> str:
    """Return the RFC 6901 pointer of a path; `""` is the value as a whole."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


class _PythonEnum:
    """The keyword `enum`, comparing as Python does."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        self._options = cast("Sequence[Any]", value)

    def validate(self, instance: Any) -> None:
        """Raise unless the instance equals an option."""
        if not any(instance == option for option in self._options):
            raise ValueError(_expected_one_of(self._options))


class _PythonConst(_PythonEnum):
    """The keyword `const`, comparing as Python does."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        super().__init__(parent_schema, [value], schema_path)


def _compares_numbers(schema: object) -> bool:
    """Whether an `enum` or `const` somewhere may hold what Python compares differently.

    Keys are looked at wherever they are, in data too: too often costs some time, too seldom would be wrong.
    """
    if is_json_object(schema):
        return any(
            (key in ("enum", "const") and _holds_a_number(child)) or _compares_numbers(child)
            for key, child in schema.items()
        )
    return is_json_array(schema) and any(map(_compares_numbers, schema))


def _holds_a_number(value: object) -> bool:
    if is_json_object(value):
        return any(map(_holds_a_number, value.values()))
    if is_json_array(value):
        return any(map(_holds_a_number, value))
    return isinstance(value, int | float)


def _require_bounded(schema: dict[str, Any]) -> None:
    _require_json(schema, limits.MAX_JSON_DEPTH, ())
    length = len(encode_json_text(schema).encode())
    if length > limits.MAX_TOOL_SCHEMA_BYTES:
        raise SchemaProblemError(
            f"the schema has {length} bytes, the limit is {limits.MAX_TOOL_SCHEMA_BYTES}"
        )


def _require_json(value: object, depth: int, path: tuple[str | int, ...]) -> None:
    if depth == 0:
        raise SchemaProblemError(f"the schema is nested more than {limits.MAX_JSON_DEPTH} levels deep")
    if is_json_object(value):
        for key, child in value.items():
            _require_text(key, path)
            _require_json(child, depth - 1, (*path, key))
    elif is_json_array(value):
        for index, child in enumerate(value):
            _require_json(child, depth - 1, (*path, index))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaProblemError(_at(format_json_pointer(path), f"JSON has no {value}"))
    elif value is not None and not isinstance(value, int):
        _require_text(value, path)


def _require_text(value: object, path: tuple[str | int, ...]) -> None:
    if not isinstance(value, str):
        problem = f"a {type(value).__name__} is not JSON"
    elif replace_lone_surrogates(value) != value:
        problem = "the text holds a lone surrogate"
    else:
        return
    raise SchemaProblemError(_at(format_json_pointer(path), problem))


def _format_problems(errors: Iterable[jsonschema_rs.ValidationError]) -> str:
    problems: set[tuple[str, str]] = set()
    for error, _ in zip(errors, range(_MAX_COLLECTED), strict=False):
        problems.update(_describe(error))
    lines = [_at(pointer, message) for pointer, message in sorted(problems)[:_MAX_PROBLEMS]]
    return "; ".join(lines)


def _at(pointer: str, message: str) -> str:
    return f"{_bounded(pointer)}: {message}" if pointer else message


def _describe(error: jsonschema_rs.ValidationError) -> list[tuple[str, str]]:
    path = error.instance_path
    pointer = format_json_pointer(path)
    value = error.kind.value
    match error.kind.name:
        case "required":
            return [(format_json_pointer([*path, value]), "is required")]
        case "additionalProperties" | "unevaluatedProperties":
            return [
                (format_json_pointer([*path, name]), "is not a known property")
                for name in value[:_MAX_LISTED_VALUES]
            ]
        case "type":
            return [(pointer, f"expected {_expected_types(value)}, got {_name_type(error.instance)}")]
        case "enum" | "const":
            return [(pointer, _describe_comparison(error))]
        case "anyOf" | "oneOf" if (types := _alternative_types(error)) is not None:
            return [(pointer, f"expected {_expected_types(types)}, got {_name_type(error.instance)}")]
        case name:
            return [(pointer, _describe_keyword(name, value))]


def _describe_keyword(name: str, value: Any) -> str:
    match name:
        case "minimum":
            return f"must be at least {value}"
        case "maximum":
            return f"must be at most {value}"
        case "exclusiveMinimum":
            return f"must be more than {value}"
        case "exclusiveMaximum":
            return f"must be less than {value}"
        case "multipleOf":
            return f"must be a multiple of {value}"
        case "minLength":
            return f"must have at least {value} characters"
        case "maxLength":
            return f"must have at most {value} characters"
        case "minItems":
            return f"must have at least {value} items"
        case "maxItems":
            return f"must have at most {value} items"
        case "minProperties":
            return f"must have at least {value} properties"
        case "maxProperties":
            return f"must have at most {value} properties"
        case "uniqueItems":
            return "has items that are the same"
        case "pattern":
            return f"does not match the pattern {_spell(value)}"
        case "anyOf":
            return "fits none of the allowed forms"
        case "oneOf":
            return "fits none or more than one of the allowed forms"
        case "falseSchema":
            return "is not allowed"
        case _:
            return f"does not satisfy {_spell(name)}"


def _describe_comparison(error: jsonschema_rs.ValidationError) -> str:
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Enum(options):
            return _expected_one_of(options)
        case jsonschema_rs.ValidationErrorKind.Constant(expected):
            return _expected_one_of([expected])
        case _:
            return _bounded(error.message)


def _expected_one_of(options: Sequence[Any]) -> str:
    shown = [_spell(option) for option in options[:_MAX_LISTED_VALUES]]
    if len(options) > len(shown):
        shown.append(f"{len(options) - len(shown)} more")
    return f"must be {shown[0]}" if len(shown) == 1 else f"must be one of {', '.join(shown)}"


def _alternative_types(error: jsonschema_rs.ValidationError) -> list[str] | None:
    """The types of alternatives that all failed for nothing but the type, as in `anyOf: [string, null]`."""
    types: list[str] = []
    for alternative in cast("list[list[jsonschema_rs.ValidationError]]", error.kind.value):
        if len(alternative) != 1:
            return None
        match alternative[0].kind:
            case jsonschema_rs.ValidationErrorKind.Type(expected) if (
                alternative[0].instance_path == error.instance_path
            ):
                types.extend(expected)
            case _:
                return None
    return types or None


def _expected_types(types: Iterable[str]) -> str:
    return " or ".join(sorted(set(types)))


def _name_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"


def _spell(value: Any) -> str:
    text = encode_json_text(value)
    return text if len(text) <= _MAX_VALUE_BYTES else f"{text[:_MAX_VALUE_BYTES]}..."


def _bounded(text: str) -> str:
    return cut_to_bytes(text, _MAX_PROBLEM_BYTES)
