"""What a provider's error means for the Step: asked again, asked again later, or never."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from dex_agents.builtin_loop.json_values import is_json_object
from dex_agents.builtin_loop.model_clients.provider_json import object_at, text_at
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import ModelCallError, ModelCallRefusedError
from dex_agents.limits import MAX_MODEL_RETRY_AFTER_SECONDS

__all__ = ["build_call_error", "read_retry_after"]

_MAX_PROBLEM_BYTES: Final = 1024
_WORTH_REPEATING: Final = frozenset({408, 409, 425, 429})
_WITHOUT_CREDIT: Final = frozenset({"billing_error", "billing_hard_limit_reached", "insufficient_quota"})
_NEVER_ANSWERED: Final = frozenset(
    {
        "authentication_error",
        "content_policy_violation",
        "context_length_exceeded",
        "invalid_api_key",
        "invalid_prompt",
        "invalid_request_error",
        "model_not_found",
        "not_found_error",
        "permission_error",
        "request_too_large",
    }
)
"""Codes and types of errors within a stream that stay whatever is tried, in the words of the providers."""

_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk|pk|rk)-[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


def build_call_error(
    provider: str,
    problem: str,
    *,
    status: int | None = None,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> ModelCallError:
    """Return the error that a failed call raises.

    Args:
        provider: Who was called.
        problem: What happened, used when `body` says nothing.
        status: The HTTP status, or `None` when there was no answer. An error that comes inside a stream has
            the status 200.
        body: The error as the provider wrote it.
        headers: Of the answer, with names in lower case or in a mapping that does not look at case.
        now: The current time, for a `retry-after` that is a date.
    """
    headers = {} if headers is None else headers
    kinds, told = _read_body(body)
    text = _presentable(told or problem)
    if status is not None and status != 200:
        text = f"answered {status}: {text}"
    delay = read_retry_after(headers, datetime.now(UTC) if now is None else now)
    if delay is not None and delay > MAX_MODEL_RETRY_AFTER_SECONDS:
        text = f"{text} (it asks to be left alone for {delay} s)"
        return ModelCallRefusedError(provider, text, status=status)
    if _is_final(status, kinds, headers):
        return ModelCallRefusedError(provider, text, status=status)
    return ModelCallError(provider, text, status=status, retry_after_seconds=delay)


def read_retry_after(headers: Mapping[str, str], now: datetime) -> int | None:
    """Return how many whole seconds an answer asks to wait, at least 1; `None` when it does not say.

    Args:
        headers: Of the answer.
        now: The current time.
    """
    milliseconds = _read_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(math.ceil(milliseconds / 1000), 1)
    written = headers.get("retry-after")
    seconds = _read_number(written)
    if seconds is None and written is not None:
        try:
            at = parsedate_to_datetime(written)
        except ValueError:
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return None if seconds is None else max(math.ceil(seconds), 1)


def _read_number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _read_body(body: object) -> tuple[set[str], str]:
    """Return the codes and the message of an error, in any of the shapes that providers give it."""
    if not is_json_object(body):
        return set(), body if isinstance(body, str) else ""
    nested = body.get("error")
    if isinstance(nested, str):
        return set(), nested
    inner: dict[str, Any] = object_at(body, "error") or body
    message = text_at(inner, "message") or text_at(inner, "detail")
    return {text_at(inner, "code"), text_at(inner, "type")}, message


def _is_final(status: int | None, kinds: set[str], headers: Mapping[str, str]) -> bool:
    if kinds & _WITHOUT_CREDIT:
        return True
    if status is None or status == 200:
        return bool(kinds & _NEVER_ANSWERED)
    advice = headers.get("x-should-retry")
    if advice in ("true", "false"):
        return advice == "false"
    return 400 <= status < 500 and status not in _WORTH_REPEATING


def _presentable(text: str) -> str:
    hidden = _LOOKS_LIKE_A_KEY.sub("[key]", replace_lone_surrogates(text))
    return cut_to_bytes(" ".join(hidden.split()), _MAX_PROBLEM_BYTES) or "no details"
