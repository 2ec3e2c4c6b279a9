"""Parts of a UI stream as server-sent events, one native call for a batch.

A part is one event: `data: `, the part as compact JSON text on one line, a blank line. The text is UTF-8 and
holds no character that any reader takes for the end of a line: beside CR and LF, which JSON escapes, U+0085,
U+2028 and U+2029 are escaped, because readers that split with a library's idea of lines stop at them too.
Surrogates that are a pair become their character, any other becomes U+FFFD. Floats that are not finite are
`null`, as `JSON.stringify` writes them.

Rust frames a list of dicts of exact `dict`, `list`, `tuple`, `str`, `int`, `float`, `bool` and `None`. A
batch with anything else in it (subclasses and enums, keys that are no strings, cycles, containers nested more
than 400 deep) goes through `json.dumps` and back first, in the lines where the extension answers `None`: what
that refuses is refused, and the rest is plain then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from dex_agents._native import encode_ui_frames as _encode
from dex_agents.limits import MAX_JOINED_DELTA_BYTES

__all__ = ["UI_STREAM_DONE", "UI_STREAM_KEEP_ALIVE", "UIStreamPart", "encode_ui_frames"]

UIStreamPart: TypeAlias = dict[str, Any]
"""One part: a JSON object with a `type`. Optional members are left out, never `None`."""

UI_STREAM_DONE: Final = b"data: [DONE]\n\n"
"""What ends a UI message stream that is whole."""

UI_STREAM_KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: readers skip it, and nothing between them and us takes the connection for dead."""


def encode_ui_frames(
    parts: Sequence[UIStreamPart],
    *,
    event_ids: Sequence[str] | None = None,
    max_joined_bytes: int = MAX_JOINED_DELTA_BYTES,
) -> bytes:
    """Frame a batch of parts.

    Deltas of one text that follow each other share a frame: a reader that folds them has the same text, for
    fewer events. A delta is a part with three members in the order of its protocol, all strings: `text-delta`
    and `reasoning-delta` (`type`, `id`, `delta`), `tool-input-delta` (`type`, `toolCallId`,
    `inputTextDelta`), and of AG-UI `TEXT_MESSAGE_CONTENT`, `REASONING_MESSAGE_CONTENT` (`type`, `messageId`,
    `delta`) and `TOOL_CALL_ARGS` (`type`, `toolCallId`, `delta`). One with more to say stands alone.

    Args:
        parts: The parts in order; no limit on their number or size.
        event_ids: One ID for each part, sent as its `id:` line, which a browser returns as `Last-Event-ID`
            when it reconnects. Joined deltas have the ID of the last of them: whoever goes on from there
            misses nothing and sees nothing twice.
        max_joined_bytes: The most bytes that the text of joined deltas has as it is spelled. One delta is
            never split, whatever its size; 0 joins none.

    Returns:
        The frames, without `UI_STREAM_DONE`.

    Raises:
        TypeError: A part is no JSON object, or a value in it has a type that JSON has no spelling for.
        ValueError: A part contains itself or is nested more than 400 deep; `event_ids` is not as long as
            `parts`, or an ID holds a line end, NUL or a lone surrogate; `max_joined_bytes` is negative.
    """
    ids = None if event_ids is None else list(event_ids)
    frames = _encode(parts, ids, max_joined_bytes)
    if frames is None:
        frames = _encode(list(parts), ids, max_joined_bytes)
    if frames is None:
        frames = _encode(_plain_parts(list(parts)), ids, max_joined_bytes)
    if frames is None:
        raise ValueError("parts: nested more than 400 deep")
    return frames


def _plain_parts(parts: list[UIStreamPart]) -> list[UIStreamPart]:
    """Return equal parts of exact JSON types."""
    try:
        plain: list[Any] = json.loads(json.dumps(parts))
    except RecursionError:
        raise ValueError("parts: nested more than 400 deep") from None
    for index, part in enumerate(plain):
        if type(part) is not dict:
            raise TypeError(f"parts[{index}]: a {type(parts[index]).__name__} is no JSON object")
    return plain
