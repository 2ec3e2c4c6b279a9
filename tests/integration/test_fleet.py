"""The fleet as a program: three Workers, one of them killed, and every session finished."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _run_fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.fleet", *arguments],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_every_session_finishes_although_a_worker_is_killed() -> None:
    ran = _run_fleet("--sessions", "24")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last_line = ran.stdout.rstrip().splitlines()[-1]
    assert re.fullmatch(r"fleet: sessions 24, finished 24, workers 3, killed 1, turns/s \d+\.\d", last_line)
    assert "reservations: 24 (" in ran.stdout
    assert "24 of 24 sessions ended" in ran.stdout, "progress is plain lines where there is no terminal"
    assert "\x1b" not in ran.stdout


@pytest.mark.parametrize("count", ["5", "0", "-3", "many"])
def test_a_fleet_too_small_for_the_story_is_refused(count: str) -> None:
    ran = _run_fleet("--sessions", count)
    assert ran.returncode == 2
    assert "--sessions" in ran.stderr
    assert "Traceback" not in ran.stderr
