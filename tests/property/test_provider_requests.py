"""Whatever became of a session, each of its requests is one that the provider takes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import settings

from dex_agents import texts
from dex_agents.testing import ModelApi
from tests.property.chance import Chance
from tests.property.random_sessions import RandomSession
from tests.suites.provider_requests import require_valid_request

_SESSIONS: Final = {"fast": 150, "thorough": 10_000}


@pytest.mark.requirement("valid-requests")
@pytest.mark.case("BR-013")
@pytest.mark.case("BR-020")
@pytest.mark.case("BR-023")
@pytest.mark.case("BR-057")
@pytest.mark.case("BR-058")
async def test_every_request_of_every_session_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    sent: Counter[str] = Counter()
    shown: Counter[str] = Counter()

    sessions = _SESSIONS[settings.get_current_profile_name()]

    for number in range(sessions):

        def check(api: ModelApi, body: dict[str, Any], number: int = number) -> None:
            sent[api] += 1
            text = json.dumps(body)
            shown.update(word for word in _TELLING if word in text)
            try:
                require_valid_request(api, body)
            except Exception as error:
                error.add_note(f"session {number}: {text}")
                raise

        await RandomSession(Chance(number), check).run()

    # A generator that stopped to reach something would prove nothing of it.
    assert min(sent.values()) > 20
    assert set(shown) == set(_TELLING)
    if sessions == _SESSIONS["thorough"]:
        total = sum(sent.values())
        with capsys.disabled():
            print(f"\n{sessions} sessions, {total} requests ({dict(sent)}), 0 invalid")


_TELLING: Final = (
    "encrypted_content",
    "redacted_thinking",
    '"signature"',
    "_invalid_arguments",
    "tool_result",
    "function_call_output",
    '"tool_call_id"',
    "It is not known whether",
    "-2",
    '"thinking": {"type": "enabled"',
    '"none"',
    '"required"',
    "cache_control",
    "They talked.",
    '"input_image"',
    '"image_url": {',
    '"media_type"',
    "Images of the result of",
    texts.IMAGE_UNREADABLE,
    "\\ufffd",
)
