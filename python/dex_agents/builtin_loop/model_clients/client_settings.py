"""What both clients are set up with, and the rules for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast

from dex_agents.errors import InvalidInputError

__all__ = ["CONNECT_SECONDS", "DEFAULT_TIMEOUT", "NO_KEY", "require_client_settings"]

DEFAULT_TIMEOUT: Final = timedelta(minutes=10)
"""The longest silence of a provider. Models that think without showing it say nothing for minutes."""

CONNECT_SECONDS: Final = 15.0

NO_KEY: Final = "none"
"""Sent to a server of one's own: the SDKs want a key, and the key of the provider is not for others."""

_BUILT: Final = frozenset(
    {"input", "instructions", "messages", "model", "store", "stream", "system", "tools"}
)


def require_client_settings(
    model: str, max_output_tokens: int | None, timeout: timedelta, request_fields: Mapping[str, Any] | None
) -> None:
    """Check what a client was made with.

    Raises:
        InvalidInputError: Something breaks a rule; the text names it.
    """
    if not isinstance(cast("Any", model), str) or not model.strip():
        raise InvalidInputError("model", "must be text that is not blank")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise InvalidInputError("max_output_tokens", f"must be at least 1, got {max_output_tokens!r}")
    if timeout <= timedelta():
        raise InvalidInputError("timeout", "must be more than zero")
    taken = sorted(_BUILT.intersection(request_fields or {}))
    if taken:
        raise InvalidInputError("request_fields", f"{taken[0]!r} is not to be set here")
