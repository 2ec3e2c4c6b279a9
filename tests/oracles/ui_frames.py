"""What `ui_frames` must write: the JSON text of `json.dumps`, on one line for every reader."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

DELTA_MEMBERS = {
    "text-delta": ["type", "id", "delta"],
    "reasoning-delta": ["type", "id", "delta"],
    "tool-input-delta": ["type", "toolCallId", "inputTextDelta"],
    "TEXT_MESSAGE_CONTENT": ["type", "messageId", "delta"],
    "REASONING_MESSAGE_CONTENT": ["type", "messageId", "delta"],
    "TOOL_CALL_ARGS": ["type", "toolCallId", "delta"],
}


def healed_text(text: str) -> str:
    """Pair the surrogates that are a pair; replace the others."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def healed(value: Any) -> Any:
    """Return the value with sound strings, and `None` for floats that JSON has not."""
    if isinstance(value, str):
        return healed_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        # Two keys that become one are still two members of the text.
        members = cast("dict[str, Any]", value).items()
        return Members((healed_text(key), healed(item)) for key, item in members)
    if isinstance(value, list | tuple):
        return [healed(item) for item in cast("Sequence[Any]", value)]
    return value


class Members(dict[str, Any]):
    """An object whose members are written as they are given, equal keys included."""

    def __init__(self, members: Any) -> None:
        self.given: list[tuple[str, Any]] = list(members)
        super().__init__(self.given)

    def items(self) -> Any:
        return self.given


def json_line(value: Any) -> str:
    text = json.dumps(healed(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def is_delta(part: dict[str, Any]) -> bool:
    members = DELTA_MEMBERS.get(kind) if isinstance(kind := part.get("type"), str) else None
    return list(part) == members and all(isinstance(value, str) for value in part.values())


def spelled_bytes(text: str) -> int:
    return len(json_line(text).encode()) - 2


def join_deltas(
    parts: Sequence[dict[str, Any]], ids: Sequence[str | None], max_joined_bytes: int
) -> list[tuple[dict[str, Any], str | None]]:
    joined: list[tuple[dict[str, Any], str | None]] = []
    for part, event_id in zip(parts, ids, strict=True):
        last = joined[-1][0] if joined else None
        if last is not None and is_delta(last) and is_delta(part):
            kind, owner, text = DELTA_MEMBERS[part["type"]]
            longer = healed_text(last[DELTA_MEMBERS[last["type"]][2]]) + healed_text(part[text])
            if (
                last["type"] == part["type"]
                and healed_text(last[owner]) == healed_text(part[owner])
                and spelled_bytes(longer) <= max_joined_bytes
            ):
                joined[-1] = ({kind: part[kind], owner: part[owner], text: longer}, event_id)
                continue
        joined.append((part, event_id))
    return joined


def frames(
    parts: Sequence[dict[str, Any]], *, event_ids: Sequence[str] | None = None, max_joined_bytes: int
) -> bytes:
    """Frame a batch of parts, slowly."""
    ids = event_ids if event_ids is not None else [None] * len(parts)
    out: list[str] = []
    for part, event_id in join_deltas(parts, ids, max_joined_bytes):
        out.append(f"data: {json_line(part)}\n")
        out.append("\n" if event_id is None else f"id: {event_id}\n\n")
    return "".join(out).encode()
