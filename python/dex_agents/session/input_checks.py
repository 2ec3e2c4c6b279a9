"""What a caller hands in, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dex_agents.codecs.json_text import JsonProblem, encode_json_text, read_json_object
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import InvalidInputError
from dex_agents.limits import (
    MAX_IDENTIFIER_CHARACTERS,
    MAX_JSON_DEPTH,
    MAX_SESSION_SETTINGS_BYTES,
    MAX_TOOL_ARGUMENTS_BYTES,
    MAX_USER_TEXT_BYTES,
)
from dex_agents.runner.contract import AgentFrameworkRunner

__all__ = [
    "find_text_refusal",
    "require_identifier",
    "require_json_object",
    "require_session_settings",
    "require_user_text",
]


def require_identifier(field: str, value: str, forbidden: str = "") -> str:
    """Return an ID that can name something for ever.

    Raises:
        InvalidInputError: It is blank, too long, or has a character that the engine cannot store.
    """
    if not value.strip():
        raise InvalidInputError(field, "must not be blank")
    if len(value) > MAX_IDENTIFIER_CHARACTERS:
        raise InvalidInputError(
            field, f"has {len(value)} characters, the limit is {MAX_IDENTIFIER_CHARACTERS}"
        )
    for character in value:
        if character in forbidden or not character.isprintable():
            raise InvalidInputError(field, f"must not contain {character!r}")
    return value


def require_user_text(field: str, text: str) -> str:
    """Return text of a person as it is stored; a lone surrogate becomes U+FFFD.

    Raises:
        InvalidInputError: It is blank or longer than `limits.MAX_USER_TEXT_BYTES`.
    """
    if not text.strip():
        raise InvalidInputError(field, "must not be blank")
    healed = replace_lone_surrogates(text)
    size = len(healed.encode())
    if size > MAX_USER_TEXT_BYTES:
        raise InvalidInputError(field, f"has {size} bytes, the limit is {MAX_USER_TEXT_BYTES}")
    return healed


def require_session_settings(field: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored; lone surrogates become U+FFFD.

    Raises:
        InvalidInputError: They are no JSON object, or larger than `limits.MAX_SESSION_SETTINGS_BYTES`.
    """
    try:
        text = replace_lone_surrogates(encode_json_text(dict(settings), ensure_ascii=False))
        values = msgspec.json.decode(text, type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(field, f"must be a JSON object: {error}") from None
    size = len(text.encode())
    if size > MAX_SESSION_SETTINGS_BYTES:
        raise InvalidInputError(field, f"has {size} bytes, the limit is {MAX_SESSION_SETTINGS_BYTES}")
    return values


def find_text_refusal(runner: AgentFrameworkRunner, text: str) -> str | None:
    """Return why a runner cannot take a text, or `None`; asked before the text is accepted."""
    try:
        runner.build_user_message(text)
    except Exception as error:  # noqa: BLE001  # whatever it is, the text must not get into a session
        return f"the runner refuses it: {error}"
    return None


def require_json_object(field: str, text: str) -> str:
    """Return JSON text of an object, as strict as that of a model.

    Raises:
        InvalidInputError: It is longer than `limits.MAX_TOOL_ARGUMENTS_BYTES`, or no JSON object that
            means the same to every reader.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_TOOL_ARGUMENTS_BYTES:
        raise InvalidInputError(field, f"has {size} bytes, the limit is {MAX_TOOL_ARGUMENTS_BYTES}")
    try:
        read = read_json_object(text, max_depth=MAX_JSON_DEPTH)
    except UnicodeEncodeError as error:
        raise InvalidInputError(field, f"must be a JSON object: {error}") from None
    if isinstance(read, JsonProblem):
        problem = read.kind.replace("_", " ")
        raise InvalidInputError(
            field, f"must be a JSON object: {problem} at line {read.line}, column {read.column}"
        )
    return text
