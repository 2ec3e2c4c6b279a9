from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dex_agents.builtin_loop.model_clients.provider_errors import build_call_error, read_retry_after
from dex_agents.errors import ModelCallRefusedError

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "3.2"}, 4),
        ({"retry-after": "0"}, 1),
        ({"retry-after": "-5"}, 1),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 1),
        ({"retry-after": "later"}, None),
        ({"retry-after-ms": "1500", "retry-after": "60"}, 2),
        ({"retry-after-ms": "?", "retry-after": "60"}, 60),
    ],
)
def test_when_to_come_back_is_read_in_every_form(headers: dict[str, str], seconds: int | None) -> None:
    assert read_retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"message": "flat"}, "flat"),
        ({"error": {"message": "nested"}}, "nested"),
        ({"type": "error", "error": {"type": "x", "message": "theirs"}}, "theirs"),
        ({"error": "a text"}, "a text"),
        ({"detail": "of a framework"}, "of a framework"),
        ("plain text", "plain text"),
        (None, "it broke"),
        ([1], "it broke"),
        ({"message": 7}, "it broke"),
        ({"message": "a\n  b \ud800"}, "a b \ufffd"),
    ],
)
def test_the_message_is_found_in_every_shape(body: object, told: str) -> None:
    assert str(build_call_error("acme", "it broke", body=body)) == f"acme: {told}"


def test_a_long_message_is_cut() -> None:
    assert len(str(build_call_error("acme", "x" * 5000))) == len("acme: ") + 1024


@pytest.mark.parametrize(
    ("status", "advice", "is_final"), [(400, "true", False), (503, "false", True), (503, "perhaps", False)]
)
def test_a_provider_may_say_whether_to_try_again(status: int, advice: str, is_final: bool) -> None:
    error = build_call_error("acme", "no", status=status, headers={"x-should-retry": advice})
    assert isinstance(error, ModelCallRefusedError) == is_final


@pytest.mark.parametrize("key", ["sk-proj-12345678", "Bearer abc.def", "sk-****************abcd"])
def test_what_looks_like_a_key_is_hidden(key: str) -> None:
    text = str(build_call_error("acme", f"wrong: {key} was sent"))
    assert text == "acme: wrong: [key] was sent"
