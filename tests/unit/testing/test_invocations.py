from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dex_agents.testing import Invocation, InvocationLog

_RECORD_FIFTY = """
import sys
from dex_agents.testing import InvocationLog
log = InvocationLog(sys.argv[1])
for number in range(50):
    log.record("refund", idempotency_key=f"{sys.argv[2]}/{number}", arguments={"text": "é" * 2000})
"""


def test_what_was_recorded_is_read_in_order(tmp_path: Path) -> None:
    log = InvocationLog(tmp_path / "log")
    log.record("refund", idempotency_key="s/turn-1/a", arguments={"amount": 3, "to": ["b"]})
    log.record("note", idempotency_key="s/turn-1/b", arguments={}, attempt=2)

    assert InvocationLog(tmp_path / "log").read() == (
        Invocation("refund", "s/turn-1/a", {"amount": 3, "to": ["b"]}, 1, os.getpid()),
        Invocation("note", "s/turn-1/b", {}, 2, os.getpid()),
    )


def test_runs_are_counted_by_tool(tmp_path: Path) -> None:
    log = InvocationLog(tmp_path / "log")
    for name in ("refund", "note", "refund"):
        log.record(name, idempotency_key="k", arguments={})

    assert (log.count(), log.count("refund"), log.count("other")) == (3, 2, 0)


def test_a_log_that_nobody_wrote_to_is_empty(tmp_path: Path) -> None:
    assert InvocationLog(tmp_path / "log").read() == ()


def test_records_of_several_processes_are_not_mixed(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    processes = [
        subprocess.Popen([sys.executable, "-c", _RECORD_FIFTY, path, str(number)]) for number in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]

    keys = [one.idempotency_key for one in InvocationLog(path).read()]
    assert sorted(keys) == sorted(f"{process}/{number}" for process in range(3) for number in range(50))


def test_a_damaged_line_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"tool_name": "refund"\n')

    with pytest.raises(msgspec.DecodeError):
        InvocationLog(tmp_path / "log").read()
