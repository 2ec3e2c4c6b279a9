"""The Worker is killed in each Step of a session: before its code, and after it with nothing committed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dex_agents import AgentSnapshot, SessionClosedError
from tests.crash.agent import Ask, build_answer, build_message
from tests.crash.stage import Stage, answers

pytestmark = pytest.mark.crash

_EVERY_KIND_OF_CALL = (
    Ask("look_up", "l"),
    Ask("save_note", "n"),
    Ask("send_refund", "r"),
    Ask("book_entry", "b"),
    Ask("sign_entry", "s"),
)

_CALLS_BY_STEP = {
    "StartSession": _EVERY_KIND_OF_CALL,
    "RunModel": _EVERY_KIND_OF_CALL,
    "ResumeTurn": _EVERY_KIND_OF_CALL,
    # No write runs beside these Steps, so that its outcome is known whenever the Worker dies.
    "AwaitToolApproval": (Ask("look_up", "l"), Ask("save_note", "n"), Ask("send_refund", "r")),
    "AwaitEarlierWrite": (Ask("look_up", "l"), Ask("book_entry", "b"), Ask("sign_entry", "s")),
    "CallTool": (Ask("look_up", "l"), Ask("save_note", "n")),
}


@pytest.mark.parametrize("place", ["enter", "leave"])
@pytest.mark.parametrize("step", _CALLS_BY_STEP)
async def test_a_turn_goes_on_after_a_kill_in_each_of_its_steps(stage: Stage, step: str, place: str) -> None:
    asked = _CALLS_BY_STEP[step]

    snapshot = await _kill_in_a_turn(stage, f"{place} {step}", asked)

    assert [call.status for call in snapshot.tool_calls] == ["succeeded"] * len(asked)
    assert answers(snapshot) == [build_answer("all", len(asked))]


@pytest.mark.parametrize(("place", "runs"), [("enter", 0), ("leave", 1)])
async def test_a_write_that_was_killed_in_its_step_is_recorded_as_unknown(
    stage: Stage, place: str, runs: int
) -> None:
    asked = (Ask("look_up", "l"), Ask("save_note", "n"), Ask("send_refund", "r"))

    snapshot = await _kill_in_a_turn(stage, f"{place} CallSingleAttemptTool", asked)

    assert [call.status for call in snapshot.tool_calls] == ["succeeded", "succeeded", "outcome_unknown"]
    assert len(stage.runs("send_refund")) == runs
    assert answers(snapshot) == [build_answer("all", len(asked))]


async def _kill_in_a_turn(stage: Stage, point: str, asked: tuple[Ask, ...]) -> AgentSnapshot:
    worker = await stage.start_worker(point)
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("all", asked))
    approving = asyncio.create_task(stage.approve_everything("s"))
    await stage.gate(point).wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()
    try:
        return await stage.settle("s")
    finally:
        approving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await approving


@pytest.mark.parametrize("place", ["enter", "leave"])
async def test_a_queued_message_begins_its_turn_although_the_worker_was_killed(
    stage: Stage, place: str
) -> None:
    point = f"{place} AwaitUserMessage"
    worker = await stage.start_worker(point)
    await stage.sessions.start_session("s")
    await stage.sessions.wait_for_idle("s")
    await stage.send("s", build_message("first", (Ask("send_refund", "r"),)))
    (asked,) = await stage.wait_for_interrupts("s")
    await stage.send("s", build_message("queued"))
    assert await stage.sessions.resolve_interrupt("s", asked.interrupt_id, "approve")
    await stage.gate(point).wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert answers(snapshot) == [build_answer("first", 1), build_answer("queued", 0)]
    assert len(stage.runs("send_refund")) == 1


@pytest.mark.parametrize("place", ["enter", "leave"])
async def test_a_tool_failure_is_recorded_although_the_worker_was_killed(stage: Stage, place: str) -> None:
    worker = await stage.start_worker(f"{place} RecordToolFailure")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("bad", (Ask("send_notice", "n", failing_attempts=1),)))
    await stage.gate(f"{place} RecordToolFailure").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert [call.status for call in snapshot.tool_calls] == ["outcome_unknown"]
    assert len(stage.runs("send_notice")) == 1


@pytest.mark.parametrize("place", ["enter", "leave"])
@pytest.mark.requirement("turn-fails-readably")
async def test_a_failed_turn_ends_although_the_worker_was_killed(stage: Stage, place: str) -> None:
    worker = await stage.start_worker(f"{place} FailTurn")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("no answer", model_fails=True))
    await stage.gate(f"{place} FailTurn").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert snapshot.last_turn_outcome == "failed"
    assert snapshot.last_turn_error is not None
    assert "the model does not answer" in snapshot.last_turn_error


@pytest.mark.parametrize("place", ["enter", "leave"])
async def test_a_cancelled_turn_ends_although_the_worker_was_killed(stage: Stage, place: str) -> None:
    worker = await stage.start_worker(f"{place} CancelTurn")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("cancelled", (Ask("send_refund", "r"), Ask("look_up", "l"))))
    await stage.wait_for_interrupts("s")
    assert await stage.sessions.cancel_turn("s")
    await stage.gate(f"{place} CancelTurn").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert snapshot.last_turn_outcome == "cancelled"
    assert snapshot.tool_calls[0].status == "not_run"
    assert stage.runs("send_refund") == ()


@pytest.mark.parametrize("place", ["enter", "leave"])
async def test_a_session_closes_although_the_worker_was_killed(stage: Stage, place: str) -> None:
    worker = await stage.start_worker(f"{place} CloseSession")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("only"))
    await stage.sessions.wait_for_idle("s")
    closing = asyncio.create_task(stage.sessions.close_session("s"))
    await stage.gate(f"{place} CloseSession").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    summary = await closing

    assert summary.turn_count == 1
    with pytest.raises(SessionClosedError):
        await stage.send("s", build_message("too late"))
    snapshot = await stage.sessions.get_agent_snapshot("s")
    assert snapshot.status == "closed"
    assert answers(snapshot) == [build_answer("only", 0)]
    stage.require_truth(snapshot)
