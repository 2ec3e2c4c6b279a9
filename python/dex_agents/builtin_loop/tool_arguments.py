"""The arguments that a model wrote: JSON text of one object, or the reason why they are not.

Stricter than `json.loads`: what is accepted here can be run, stored, shown to a person and sent back to any
provider, and means the same to all of them.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import msgspec

from dex_agents import limits, texts
from dex_agents.codecs.json_text import JsonProblem, encode_json_text, read_json_object
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates

__all__ = [
    "ArgumentsProblemError",
    "DecodedArguments",
    "decode_tool_arguments",
    "is_longer_than",
    "replayable_arguments",
]

_SHOWN_INVALID_BYTES: Final = 1000
_SHOWN_KEY_BYTES: Final = 100


class ArgumentsProblemError(Exception):
    """Arguments do not fit; the text is what the model reads after `invalid arguments: `."""


class DecodedArguments(msgspec.Struct, frozen=True):
    """Arguments that are a JSON object.

    Attributes:
        value: The object.
        text: JSON text of `value`: the model's own text unless lone surrogates had to be replaced.
    """

    value: dict[str, Any]
    text: str


def decode_tool_arguments(arguments: str) -> DecodedArguments:
    """Read the arguments of a call.

    Args:
        arguments: What the model wrote.

    Raises:
        ArgumentsProblemError: They are longer than `limits.MAX_TOOL_ARGUMENTS_BYTES`, not whole, not an
            object, name a key twice, hold a number that JSON has not, or are nested deeper than
            `limits.MAX_JSON_DEPTH`. Of several problems the first in the text is told, with its place.
    """
    if is_longer_than(arguments, limits.MAX_TOOL_ARGUMENTS_BYTES):
        raise ArgumentsProblemError(texts.ARGUMENTS_TOO_LONG)
    text = replace_lone_surrogates(arguments)
    read = read_json_object(text, max_depth=limits.MAX_JSON_DEPTH)
    if isinstance(read, JsonProblem):
        raise ArgumentsProblemError(_tell(read))
    return DecodedArguments(read.value, encode_json_text(read.value) if read.healed else text)


def replayable_arguments(arguments: str) -> str:
    """Return JSON text of an object that stands for stored arguments in a request.

    It is the text itself when that is good; else a bounded object which shows the model what it wrote. Broken
    arguments never become `{}`: the model would take its failed call for a good one.
    """
    try:
        return decode_tool_arguments(arguments).text
    except ArgumentsProblemError:
        shown = cut_to_bytes(replace_lone_surrogates(arguments[:_SHOWN_INVALID_BYTES]), _SHOWN_INVALID_BYTES)
        return encode_json_text({"_invalid_arguments": shown})


def is_longer_than(text: str, limit: int) -> bool:
    """Whether text has more than `limit` bytes as UTF-8."""
    return len(text) > limit or (len(text) * 4 > limit and len(text.encode(errors="replace")) > limit)


def _tell(problem: JsonProblem) -> str:
    line, column = problem.line, problem.column
    match problem.kind:
        case "not_json":
            return texts.arguments_not_json(line, column)
        case "cut_off":
            return texts.arguments_cut_off(line, column)
        case "not_an_object":
            return texts.ARGUMENTS_NOT_AN_OBJECT
        case "number_out_of_range":
            return texts.arguments_number_out_of_range(line, column)
        case "too_deep":
            return texts.arguments_too_deep(limits.MAX_JSON_DEPTH, line, column)
        case "repeated_key":
            shown = cut_to_bytes((problem.key or "")[:_SHOWN_KEY_BYTES], _SHOWN_KEY_BYTES)
            return texts.arguments_repeat_a_key(shown, line, column)
        case _:
            assert_never(problem.kind)
