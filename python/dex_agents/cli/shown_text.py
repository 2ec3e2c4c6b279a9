"""Text of models, tools and files, made safe to show: what a terminal would obey or hide is spelled out."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dex_agents.wire.images import AgentImageReference

__all__ = ["cut_lines", "describe_arguments", "describe_image", "spell_out_controls"]

# Control characters, and the format characters that turn text around or hide it.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def spell_out_controls(text: str) -> str:
    """Return a text in which only line ends and tabs still control anything."""
    return _UNSAFE.sub(_spell, text.replace("\r\n", "\n"))


def describe_arguments(arguments: str, *, indent: int | None = 2) -> str:
    """Return a call's arguments for a person: indented JSON, or the very text when it is none."""
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        return spell_out_controls(arguments)
    return spell_out_controls(json.dumps(value, indent=indent, ensure_ascii=False))


def describe_image(number: int, image: AgentImageReference) -> str:
    """Return what a person sees of an image: its number in the message, its type and its size."""
    size = f"{image.size_bytes} bytes" if image.size_bytes < 1_000 else f"{image.size_bytes / 1_000:.1f} kB"
    return f"image {number}: {image.mime_type}, {size}"


def cut_lines(text: str, lines: int, characters: int = 2_000) -> str:
    """Return the beginning of a text, with a mark where it was cut."""
    head = text.rstrip()[:characters]
    kept = head.split("\n")[:lines]
    shown = "\n".join(kept)
    return shown if len(shown) == len(text.rstrip()) else f"{shown}\n…"


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
