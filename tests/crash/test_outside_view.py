"""The soak's view of the outside world misses nothing while it grows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dex_agents.builtin_loop import ModelRequest, ModelUserTextItem
from dex_agents.testing import Invocation
from tests.crash.agent import INVOCATIONS, REQUESTS, invocation_log
from tests.crash.outside_view import OutsideView


def _record(folder: Path, session_id: str, reference: str) -> Invocation:
    key = f"{session_id}/turn-1/{reference}"
    return invocation_log(folder).record(
        "send_refund", idempotency_key=key, arguments={"reference": reference}
    )


def _ask(folder: Path, text: str) -> None:
    request = ModelRequest(instructions="s", items=(ModelUserTextItem(text),))
    with (folder / REQUESTS).open("ab") as log:
        log.write(msgspec.json.encode(request) + b"\n")


def test_each_run_is_told_of_once_and_to_its_session(tmp_path: Path) -> None:
    outside = OutsideView(tmp_path)
    first, other = _record(tmp_path, "a", "1"), _record(tmp_path, "b", "2")
    assert outside.take_runs("a") == [first]
    second = _record(tmp_path, "a", "3")
    assert outside.take_runs("a") == [second]
    assert outside.take_runs("b") == [other]
    assert outside.take_runs("b") == []


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    outside = OutsideView(tmp_path)
    run = _record(tmp_path, "a", "1")
    line = (tmp_path / INVOCATIONS).read_bytes()
    for end in (0, 1, len(line) - 1):
        (tmp_path / INVOCATIONS).write_bytes(line[:end])
        assert outside.take_runs("a") == []
    (tmp_path / INVOCATIONS).write_bytes(line)
    assert outside.take_runs("a") == [run]


def test_a_session_whose_tools_never_ran_has_no_runs(tmp_path: Path) -> None:
    assert OutsideView(tmp_path).take_runs("a") == []
    assert OutsideView(tmp_path).find_repeated_writes() == []


def test_a_write_that_is_repeated_after_its_session_was_judged_is_found(tmp_path: Path) -> None:
    outside = OutsideView(tmp_path)
    _record(tmp_path, "a", "1")
    outside.take_runs("a")
    _record(tmp_path, "a", "1")
    assert outside.find_repeated_writes() == ["send_refund 1 ran 2 times"]


@pytest.mark.parametrize("calls_before", [0, 1, 2])
async def test_every_request_is_judged_once(tmp_path: Path, calls_before: int) -> None:
    outside = OutsideView(tmp_path)
    problems: list[str] = []
    for _ in range(calls_before):
        _ask(tmp_path, "good")
        problems += await outside.find_invalid_requests()
    _ask(tmp_path, " ")
    for _ in range(3):
        problems += await outside.find_invalid_requests()
    assert problems == ["request 1: a user text is blank"]
    assert outside.requests == calls_before + 1
