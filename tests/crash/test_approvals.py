"""A question waits for a person, and a decision counts once, whatever is killed in between."""

from __future__ import annotations

import asyncio

import pytest

from tests.crash.agent import Ask, build_message
from tests.crash.stage import Stage

pytestmark = pytest.mark.crash


@pytest.mark.case("BR-027")
async def test_two_answers_given_to_two_workers_both_count(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("two", (Ask("send_refund", "a"), Ask("send_refund", "b"))))
    first, second = await stage.wait_for_interrupts("s", 2)
    assert await stage.sessions.resolve_interrupt("s", first.interrupt_id, "approve")
    await worker.kill()
    await stage.start_worker()
    assert await stage.wait_for_interrupts("s", 1) == (second,)
    assert await stage.sessions.resolve_interrupt("s", second.interrupt_id, "reject", reason="not this one")

    snapshot = await stage.settle("s")

    statuses = {call.tool_call_id: call.status for call in snapshot.tool_calls}
    assert statuses[second.tool_call_id] == "rejected"
    # The first may have been running when the Worker died.
    assert statuses[first.tool_call_id] in ("succeeded", "outcome_unknown")
    assert [one.arguments["reference"] for one in stage.log.read()] in (["a"], [])


@pytest.mark.case("BR-031")
async def test_of_twenty_equal_approvals_one_counts(stage: Stage) -> None:
    await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("one", (Ask("send_refund", "r"),)))
    (interrupt,) = await stage.wait_for_interrupts("s")

    answers = await asyncio.gather(
        *(stage.sessions.resolve_interrupt("s", interrupt.interrupt_id, "approve") for _ in range(20))
    )

    assert answers.count(True) == 1
    await stage.settle("s")
    assert len(stage.runs("send_refund")) == 1


@pytest.mark.case("BR-031")
@pytest.mark.requirement("approval-once")
async def test_of_twenty_equal_approvals_one_counts_while_the_engine_is_killed(stage: Stage) -> None:
    await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("one", (Ask("send_refund", "r"),)))
    (interrupt,) = await stage.wait_for_interrupts("s")
    approvals = [
        asyncio.create_task(stage.sessions.resolve_interrupt("s", interrupt.interrupt_id, "approve"))
        for _ in range(20)
    ]
    await asyncio.wait(approvals, return_when=asyncio.FIRST_COMPLETED)
    await stage.engine.kill()
    await stage.engine.start()

    answers = await asyncio.gather(*approvals)

    assert answers.count(True) == 1
    snapshot = await stage.settle("s")
    assert snapshot.tool_calls[0].approval is not None
    assert len(stage.runs("send_refund")) <= 1


@pytest.mark.case("BR-037")
@pytest.mark.requirement("approval-durable")
async def test_a_question_stays_open_until_a_person_decides(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("wait", (Ask("send_refund", "r"),)))
    asked = await stage.wait_for_interrupts("s")
    for _ in range(2):
        await worker.kill()
        await stage.engine.kill()
        await stage.engine.start()
        await worker.start()
        assert await stage.wait_for_interrupts("s") == asked

    found = [waiting async for waiting in stage.sessions.waiting_sessions()]
    assert [(one.session_id, one.interrupts) for one in found] == [("s", asked)]
    await stage.approve("s")

    snapshot = await stage.settle("s")

    assert snapshot.tool_calls[0].status == "succeeded"
    assert len(stage.runs("send_refund")) == 1


@pytest.mark.case("BR-038")
@pytest.mark.requirement("cancel-stale")
async def test_a_question_of_a_cancelled_turn_cannot_be_answered_after_a_restart(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("wait", (Ask("send_refund", "r"),)))
    (interrupt,) = await stage.wait_for_interrupts("s")
    assert await stage.sessions.cancel_turn("s")
    await worker.kill()
    await stage.engine.kill()
    await stage.engine.start()
    await worker.start()

    assert not await stage.sessions.resolve_interrupt("s", interrupt.interrupt_id, "approve")

    snapshot = await stage.settle("s")
    assert [call.status for call in snapshot.tool_calls] == ["not_run"]
    assert snapshot.last_turn_outcome == "cancelled"
    assert stage.log.count() == 0


async def test_an_answer_to_a_question_that_has_fallen_away_is_refused(stage: Stage) -> None:
    await stage.start_worker("enter AwaitToolApproval")
    await stage.sessions.start_session("s")
    asked = (Ask("book_entry", "b", failing_attempts=1), Ask("sign_entry", "s"))
    await stage.send("s", build_message("books", asked))
    await stage.gate("enter AwaitToolApproval").wait_for_arrivals()

    took_effect = await stage.sessions.resolve_interrupt("s", "approval:call_2", "approve")

    stage.gate("enter AwaitToolApproval").open()
    snapshot = await stage.settle("s")
    assert not took_effect
    assert [call.status for call in snapshot.tool_calls] == ["outcome_unknown", "not_run"]
