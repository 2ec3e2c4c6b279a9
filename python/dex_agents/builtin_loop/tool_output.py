"""What a function tool returned → the text that is stored and that the model reads."""

from __future__ import annotations

import json
import re
from typing import Any, Final, Never

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.json_values import heal_json_value
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import ToolExecutionError

__all__ = ["encode_tool_output"]

_SURROGATE_ESCAPE: Final = re.compile(r"\\ud[89a-f]")
_MAX_REASON_BYTES: Final = 300


def encode_tool_output(value: Any, *, ensure_ascii: bool) -> str:
    """Return the output text of a tool's return value.

    A string is the text itself. Anything else is what `json.dumps` writes with its default arguments;
    dataclasses, msgspec Structs, dates and times, `UUID`, `Decimal`, enums, `bytes` (as base64) and sets (in
    any order) become JSON values first, as `msgspec.to_builtins` makes them. Lone surrogates become U+FFFD.

    Args:
        value: What the tool returned.
        ensure_ascii: Whether characters above ASCII are written as escapes.

    Raises:
        ToolExecutionError: The value holds NaN or an infinity, contains itself, is nested too deeply, or has
            a part of another type. Running the tool again could not help.
    """
    if isinstance(value, str):
        return replace_lone_surrogates(str.__str__(value))
    text = _spell(value, ensure_ascii=ensure_ascii)
    # Both words are rare, in strings too: only a text that has one is read again to see which it is.
    if "NaN" in text or "Infinity" in text:
        json.loads(text, parse_constant=_refuse_constant)
    if text.isascii():
        has_surrogate = _SURROGATE_ESCAPE.search(text) is not None
    else:
        has_surrogate = replace_lone_surrogates(text) != text
    return _spell_healed(text, ensure_ascii=ensure_ascii) if has_surrogate else text


def _spell(value: Any, *, ensure_ascii: bool) -> str:
    try:
        try:
            return encode_json_text(value, ensure_ascii=ensure_ascii)
        except TypeError:
            return encode_json_text(msgspec.to_builtins(value), ensure_ascii=ensure_ascii)
    except RecursionError:
        reason = "it contains itself or is nested too deeply"
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error)
    raise ToolExecutionError(
        texts.tool_result_not_json(cut_to_bytes(replace_lone_surrogates(reason), _MAX_REASON_BYTES))
    )


def _spell_healed(text: str, *, ensure_ascii: bool) -> str:
    try:
        return encode_json_text(heal_json_value(json.loads(text)), ensure_ascii=ensure_ascii)
    except ValueError as error:
        raise ToolExecutionError(texts.tool_result_not_json(str(error))) from None


def _refuse_constant(constant: str) -> Never:
    raise ToolExecutionError(texts.tool_result_not_json(f"it holds {constant}, which JSON has not"))
