"""JSON values as Python holds them: what they are, and how they are healed."""

from __future__ import annotations

from typing import Any, TypeGuard

from dex_agents.codecs.unicode_text import replace_lone_surrogates

__all__ = [
    "RepeatedKeyError",
    "build_object_of_distinct_keys",
    "heal_json_value",
    "is_json_array",
    "is_json_object",
]


class RepeatedKeyError(ValueError):
    """One key of an object has two values, and readers differ in which they take.

    Attributes:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        super().__init__("a key appears twice in one object")
        self.key = key


def is_json_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value that came from JSON is an object."""
    return isinstance(value, dict)


def is_json_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value that came from JSON is an array."""
    return isinstance(value, list)


def build_object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; an `object_pairs_hook` of `json.loads`.

    Raises:
        RepeatedKeyError: A key appears twice.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key)
            seen.add(key)
    return value


def heal_json_value(value: Any) -> Any:
    """Return a JSON value with each lone surrogate, in keys and in values, replaced by U+FFFD.

    Raises:
        RepeatedKeyError: Two keys of one object are the same afterwards.
    """
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if is_json_array(value):
        return [heal_json_value(element) for element in value]
    if is_json_object(value):
        return build_object_of_distinct_keys(
            [(replace_lone_surrogates(key), heal_json_value(child)) for key, child in value.items()]
        )
    return value
