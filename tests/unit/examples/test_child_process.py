from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.child_process import ChildProcess, ChildStartError

_CHILD = """
import asyncio
from examples.child_process import announce, stop_requested

async def main():
    async with stop_requested() as stopping:
        announce(event="ready", number=1)
        announce(event="more")
        await stopping.wait()
        announce(event="stopping")

asyncio.run(main())
"""


@pytest.fixture
def child_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_child.py").write_text(_CHILD, encoding="utf-8")
    (tmp_path / "a_short_child.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    root = Path(__file__).resolve().parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}:{root / 'python'}")
    return "a_child"


async def test_a_child_announces_itself_and_ends_in_good_order(child_module: str) -> None:
    async with ChildProcess.running("the child", child_module) as child:
        assert child.ready == {"event": "ready", "number": 1}
        assert await child.next_announcement() == {"event": "more"}
    assert await child.next_announcement() == {"event": "stopping"}
    assert await child.next_announcement() is None


async def test_a_killed_child_says_nothing_more(child_module: str) -> None:
    child = await ChildProcess.start("the child", child_module)
    await child.next_announcement()
    await child.kill()
    assert await child.next_announcement() is None
    await child.kill()
    await child.stop()


async def test_a_child_that_ends_before_it_is_ready_is_an_error(child_module: str) -> None:
    with pytest.raises(ChildStartError, match="the child ended with exit status 3 before it was ready"):
        await ChildProcess.start("the child", "a_short_child")


def test_a_child_ends_with_its_parent(child_module: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", child_module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert "ready" in child.stdout.readline()
        child.stdin.close()
        assert "stopping" in child.stdout.read()
    assert child.returncode == 0


def test_a_child_without_a_pipe_runs_until_it_is_told(child_module: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", child_module], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert "ready" in child.stdout.readline()
        assert "more" in child.stdout.readline()
        child.terminate()
        assert "stopping" in child.stdout.read()
    assert child.returncode == 0
