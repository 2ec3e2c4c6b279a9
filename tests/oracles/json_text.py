"""What `json_text` must write: `json.dumps` itself is the definition."""

import json
from collections.abc import Callable
from typing import Any

from dex_agents.codecs.json_text import encode_compact_sorted_json_text, encode_json_text

Encoder = Callable[[Any], str]


def default_text(value: Any) -> str:
    return json.dumps(value)


def unicode_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def compact_sorted_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def encode_unicode_json_text(value: Any) -> str:
    return encode_json_text(value, ensure_ascii=False)


VARIANTS: dict[str, tuple[Encoder, Encoder]] = {
    "default": (encode_json_text, default_text),
    "unicode": (encode_unicode_json_text, unicode_text),
    "compact_sorted": (encode_compact_sorted_json_text, compact_sorted_text),
}
"""Each spelling the product uses: the seam's function, and the oracle it must agree with."""
