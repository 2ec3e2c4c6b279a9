from __future__ import annotations

import asyncio

import pytest

from dex_agents import SessionNotFoundError
from examples.child_process import ChildStartError
from examples.program import run_program


async def _return(status: int) -> int:
    return status


async def _raise(error: BaseException) -> int:
    raise error


async def _fail_in_a_task_group() -> int:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_raise(ChildStartError("the Worker did not start")))
    return 0


def test_the_status_of_the_program_is_returned() -> None:
    assert [run_program(_return(status)) for status in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SessionNotFoundError("s1"), "SessionNotFoundError: no session has the ID 's1'\n"),
        (TimeoutError("too late"), "TimeoutError: too late\n"),
    ],
)
def test_what_could_not_be_served_is_one_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(_raise(error)) == 1
    assert capsys.readouterr().err == line


def test_an_error_inside_a_task_group_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(_fail_in_a_task_group()) == 1
    assert capsys.readouterr().err == "ChildStartError: the Worker did not start\n"


def test_a_mistake_in_the_program_is_not_hidden() -> None:
    with pytest.raises(KeyError, match="a bug"):
        run_program(_raise(KeyError("a bug")))
