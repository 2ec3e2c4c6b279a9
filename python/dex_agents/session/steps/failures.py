"""What a failed attempt tells the engine, and what an exhausted Step says about why it failed."""

from __future__ import annotations

from typing import Final

from dex import RecoveryErrorInfo, RetryAfterError, retry_after

from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import AttemptFailedError, ModelCallError

__all__ = ["describe_failure", "name_retry_time"]

_MAX_BYTES: Final = 4 * 1024
"""A traceback-like message must not crowd out the conversation."""


def describe_failure(recovery: RecoveryErrorInfo | None) -> str:
    """Return the error of a Step's last attempt as one bounded line of text for records and the model."""
    if recovery is None:
        return "the attempt failed and its error was lost"
    detail = recovery.detail or "no details"
    # The SDK gives the class with its module.
    kind = recovery.error_type.rpartition(".")[2]
    names_itself = kind in ("", AttemptFailedError.__name__, ModelCallError.__name__)
    text = detail if names_itself else f"{recovery.error_type}: {detail}"
    return cut_to_bytes(replace_lone_surrogates(text), _MAX_BYTES)


def name_retry_time(error: ModelCallError) -> RetryAfterError | None:
    """Return what a Step raises to be attempted again when the provider said, `None` if it did not say."""
    if error.retry_after_seconds is None:
        return None
    return retry_after(error.retry_after_seconds, error)
