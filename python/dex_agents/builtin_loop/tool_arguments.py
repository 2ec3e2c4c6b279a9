"""The arguments that a model wrote: JSON text of one object, or the reason why they are not.

Stricter than `json.loads`: what is accepted here can be run, stored, shown to a person and sent back to any
provider, and means the same to all of them.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, Never

import msgspec

from dex_agents import limits, texts
from dex_agents.builtin_loop.json_values import (
    RepeatedKeyError,
    build_object_of_distinct_keys,
    heal_json_value,
    is_json_array,
    is_json_object,
)
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates

__all__ = [
    "ArgumentsProblemError",
    "DecodedArguments",
    "decode_tool_arguments",
    "is_longer_than",
    "replayable_arguments",
]

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
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
            `limits.MAX_JSON_DEPTH`.
    """
    if is_longer_than(arguments, limits.MAX_TOOL_ARGUMENTS_BYTES):
        raise ArgumentsProblemError(texts.ARGUMENTS_TOO_LONG)
    text = replace_lone_surrogates(arguments)
    try:
        value: Any = _DECODER.decode(text)
        if not is_json_object(value):
            raise ArgumentsProblemError(texts.ARGUMENTS_NOT_AN_OBJECT)
        if _is_deeper_than(value, limits.MAX_JSON_DEPTH):
            raise ArgumentsProblemError(texts.arguments_too_deep(limits.MAX_JSON_DEPTH))
        if _SURROGATE_ESCAPE.search(text) is None:
            return DecodedArguments(value, text)
        healed: dict[str, Any] = heal_json_value(value)
        return DecodedArguments(healed, text if healed == value else encode_json_text(healed))
    except json.JSONDecodeError:
        raise ArgumentsProblemError(texts.ARGUMENTS_NOT_JSON) from None
    except RecursionError:
        raise ArgumentsProblemError(texts.arguments_too_deep(limits.MAX_JSON_DEPTH)) from None
    except RepeatedKeyError as error:
        shown = cut_to_bytes(replace_lone_surrogates(error.key[:_SHOWN_KEY_BYTES]), _SHOWN_KEY_BYTES)
        raise ArgumentsProblemError(texts.arguments_repeat_a_key(shown)) from None


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


def _refuse_number(_: str) -> Never:
    raise ArgumentsProblemError(texts.ARGUMENTS_NUMBER_OUT_OF_RANGE)


def _finite_float(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        _refuse_number(literal)
    return number


def _bounded_int(literal: str) -> int:
    try:
        return int(literal)
    except ValueError:
        _refuse_number(literal)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=build_object_of_distinct_keys,
    parse_constant=_refuse_number,
    parse_float=_finite_float,
    parse_int=_bounded_int,
)


def _is_deeper_than(value: Any, depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(depth):
        children: list[Any] = []
        for parent in level:
            children.extend(parent.values() if is_json_object(parent) else parent)
        level = [child for child in children if is_json_object(child) or is_json_array(child)]
        if not level:
            return False
    return True
