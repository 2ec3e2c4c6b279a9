"""Reading a provider's JSON without trusting it: what is not there, or is something else, reads as empty."""

from __future__ import annotations

import math
from typing import Any

from dex_agents.builtin_loop.json_values import is_json_array, is_json_object

__all__ = ["array_at", "count_at", "object_at", "objects_at", "text_at"]


def text_at(value: dict[str, Any], key: str) -> str:
    """Return the text at a key, `""` when there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def object_at(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key, an empty one when there is none."""
    found = value.get(key)
    return found if is_json_object(found) else {}


def array_at(value: dict[str, Any], key: str) -> list[Any]:
    """Return the array at a key, an empty one when there is none."""
    found = value.get(key)
    return found if is_json_array(found) else []


def objects_at(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of the array at a key."""
    return [element for element in array_at(value, key) if is_json_object(element)]


def count_at(value: dict[str, Any], key: str) -> int:
    """Return the count at a key, zero when there is none or it is below zero."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return 0
    return max(int(found), 0)
