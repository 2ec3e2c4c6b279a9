from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dex_agents.engine import LocalEngine


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"synchronous": "off"}, "synchronous must be 'full' or 'normal', not 'off'"),
        ({"runs_in_memory": -1}, "runs_in_memory must not be negative, not -1"),
        (
            {"retention": timedelta(milliseconds=999)},
            "retention must be at least 0:00:01, not 0:00:00.999000",
        ),
        ({"history_events": -1}, "history_events must not be negative, not -1"),
        ({"drain": timedelta(seconds=-1)}, "drain must not be negative"),
        ({"token": ""}, "token must be printable ASCII without spaces, and not empty"),
        ({"token": "two words"}, "token must be printable ASCII"),
        ({"token": "schlüssel"}, "token must be printable ASCII"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        LocalEngine("engine.db", **options)
