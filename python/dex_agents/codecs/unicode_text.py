"""Text that every provider and every reader can take: no lone surrogates."""

from __future__ import annotations

__all__ = ["cut_to_bytes", "replace_lone_surrogates"]


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD.

    A lone surrogate cannot be written as UTF-8: stored once, it would make every later request of the session
    fail. Text without one is returned as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_to_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of `text` that is at most `limit` bytes of UTF-8, in whole characters."""
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[:limit].decode("utf-8", "ignore")
