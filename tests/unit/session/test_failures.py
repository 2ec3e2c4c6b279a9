from __future__ import annotations

import dex
import pytest

from dex_agents.errors import ModelCallError
from dex_agents.session.steps.failures import name_retry_time


@pytest.mark.requirement("rate-limit")
def test_a_provider_that_says_when_decides_the_time_of_the_next_attempt() -> None:
    limited = ModelCallError("acme", "answered 429: slow down", status=429, retry_after_seconds=7)
    assert name_retry_time(limited) == dex.RetryAfterError(after_seconds=7, cause=limited)


def test_another_failed_call_is_attempted_again_as_any_step_is() -> None:
    failed = ModelCallError("acme", "answered 503: busy", status=503)
    assert name_retry_time(failed) is None
