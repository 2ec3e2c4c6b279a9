"""JSON text: written byte for byte as `json.dumps` writes it, several times as fast, and read strictly.

What a tool returned is stored and shown to the model as this text, so it must never depend on which
encoder was at hand: two spellings of one value would be two different histories.

Rust spells exact `dict`, `list`, `tuple`, `str`, `int`, `float`, `bool` and `None`. Everything else goes to
`json.dumps`, in the line where the extension answers `None`: subclasses and enums; keys of any other type,
or, when keys are sorted, of any type but `str`; lone surrogates in readable text and in sorted keys; cycles;
containers nested more than 400 deep; ints of more digits than Python writes. So what `json.dumps` refuses,
`json.dumps` refuses. One thing differs: a value less deep than that is spelled even where `json.dumps` would
have found the stack of its caller used up.

What is read strictly comes from a model: `read_json_object` takes what means the same to every reader, and
says of anything else what is wrong with it, and where.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

try:
    from dex_agents._native import encode_ascii, encode_compact_sorted, encode_unicode
    from dex_agents._native import read_json_object as _read_json_object
except ImportError as error:
    message = (
        "dex_agents needs its extension `dex_agents._native`, which is not built for this Python: "
        "run `make build` in a checkout, or `pip install dex-agents-native`"
    )
    raise ImportError(message, name=error.name, path=error.path) from error

__all__ = [
    "JsonProblem",
    "JsonProblemKind",
    "ReadJsonObject",
    "encode_compact_sorted_json_text",
    "encode_json_text",
    "read_json_object",
]

JsonProblemKind = Literal[
    "not_json", "cut_off", "not_an_object", "number_out_of_range", "repeated_key", "too_deep"
]
"""What is wrong with JSON text: see `JsonProblem`."""


class ReadJsonObject(NamedTuple):
    """A JSON object that was read.

    Attributes:
        value: The object, as `json.loads` gives it.
        healed: Whether the text holds escapes of lone surrogates; U+FFFD stands in their place.
    """

    value: dict[str, Any]
    healed: bool


class JsonProblem(NamedTuple):
    """The first thing in a text that is wrong.

    Attributes:
        kind: `not_json`: what comes before the place can begin JSON text, with its character it cannot.
            `cut_off`: the text ends there, where JSON text does not. `not_an_object`: the value at the place
            is something else. `number_out_of_range`: the number at the place is `NaN`, infinite, beyond the
            largest double, or an integer of more than 4,300 digits. `repeated_key`: the key at the place
            stands in its object already. `too_deep`: the object or array that begins at the place is inside
            as many others as are allowed.
        line: The line of the place, from 1; a line ends with U+000A.
        column: Its character in that line, from 1.
        key: The key that is repeated.
    """

    kind: JsonProblemKind
    line: int
    column: int
    key: str | None


def encode_json_text(value: Any, *, ensure_ascii: bool = True) -> str:
    """Write a value as `json.dumps(value, ensure_ascii=ensure_ascii)` writes it.

    Safe while other threads change the value: the text then shows it at one moment.

    Args:
        value: Anything `json.dumps` accepts; no size limit.
        ensure_ascii: `False` keeps characters above ASCII readable. A model reads Chinese text at a
            quarter of the tokens that way; the default is the spelling that is stored.

    Returns:
        The text, with `", "` and `": "` as separators. `NaN` and the infinities are written as words.

    Raises:
        TypeError: A part of `value` has a type that JSON has no spelling for.
        ValueError: `value` contains itself, or an int of more digits than Python writes.
        RecursionError: `value` is nested too deeply.
    """
    text = encode_ascii(value) if ensure_ascii else encode_unicode(value)
    return json.dumps(value, ensure_ascii=ensure_ascii) if text is None else text


def encode_compact_sorted_json_text(value: Any) -> str:
    """Write a value as `json.dumps(value, sort_keys=True, separators=(",", ":"))` writes it.

    Equal values have one text, whatever the order their keys were added in: use it for what is hashed or
    compared.

    Args:
        value: Anything `json.dumps` accepts; keys are sorted by code point at every level.

    Returns:
        The text, all ASCII and without blanks.

    Raises:
        TypeError: A part of `value` has a type that JSON has no spelling for, or the keys of one dict
            cannot be compared with each other.
        ValueError: `value` contains itself, or an int of more digits than Python writes.
        RecursionError: `value` is nested too deeply.
    """
    text = encode_compact_sorted(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if text is None else text


def read_json_object(text: str, *, max_depth: int) -> ReadJsonObject | JsonProblem:
    """Read JSON text of one object, strictly.

    Whoever reads it, the text means the same: no key of an object is repeated, no number is out of range, and
    no text in it holds a lone surrogate. Blanks may stand around the object, and nothing else: no byte order
    mark.

    Args:
        text: JSON text without lone surrogates; escapes of them are healed.
        max_depth: Levels of objects and arrays that are allowed.

    Returns:
        The object, or the first problem of the text.

    Raises:
        UnicodeEncodeError: `text` itself holds a lone surrogate.
    """
    found = _read_json_object(text, max_depth)
    return ReadJsonObject(*found) if len(found) == 2 else JsonProblem(*found)
