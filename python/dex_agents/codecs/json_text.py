"""JSON text, byte for byte as `json.dumps` writes it, several times as fast.

What a tool returned is stored and shown to the model as this text, so it must never depend on which
encoder was at hand: two spellings of one value would be two different histories.

Rust spells exact `dict`, `list`, `tuple`, `str`, `int`, `float`, `bool` and `None`. Everything else goes to
`json.dumps`, in the line where the extension answers `None`: subclasses and enums; keys of any other type,
or, when keys are sorted, of any type but `str`; lone surrogates in readable text and in sorted keys; cycles;
containers nested more than 400 deep; ints of more digits than Python writes. So what `json.dumps` refuses,
`json.dumps` refuses. One thing differs: a value less deep than that is spelled even where `json.dumps` would
have found the stack of its caller used up.
"""

import json
from typing import Any

try:
    from dex_agents._native import encode_ascii, encode_compact_sorted, encode_unicode
except ImportError as error:
    message = (
        "dex_agents needs its extension `dex_agents._native`, which is not built for this Python: "
        "run `make build` in a checkout, or `pip install dex-agents-native`"
    )
    raise ImportError(message, name=error.name, path=error.path) from error

__all__ = ["encode_compact_sorted_json_text", "encode_json_text"]


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
