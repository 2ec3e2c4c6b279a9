"""A write is never repeated in silence, whoever dies."""

from __future__ import annotations

import pytest

from dex_agents import OUTCOME_UNKNOWN_TOOL_RESULT
from tests.crash.agent import Ask, build_answer, build_message
from tests.crash.stage import Stage, answers, call_of

pytestmark = pytest.mark.crash


@pytest.mark.case("BR-001")
@pytest.mark.requirement("outcome-truth")
async def test_an_approved_write_whose_result_was_lost_is_not_sent_again(stage: Stage) -> None:
    worker = await stage.start_worker("after send_refund")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("refund", (Ask("send_refund", "r"),)))
    await stage.approve("s")
    await stage.gate("after send_refund").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    call = call_of(snapshot, "send_refund")
    assert len(stage.runs("send_refund")) == 1
    assert call.status == "outcome_unknown"
    assert call.approval is not None
    assert call.approval.decision == "approve"
    assert snapshot.interrupts == ()
    (result,) = (message for message in snapshot.messages if message.role == "tool")
    assert result.tool_output is not None
    assert result.tool_output.startswith(OUTCOME_UNKNOWN_TOOL_RESULT)


@pytest.mark.case("BR-002")
@pytest.mark.requirement("effect-retries")
async def test_a_failing_read_is_retried_without_the_write_beside_it(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    asked = (Ask("send_refund", "r"), Ask("look_up", "l", failing_attempts=2))
    await stage.send("s", build_message("refund", asked))
    await stage.approve("s")

    snapshot = await stage.settle("s")

    assert [one.attempt for one in stage.runs("look_up")] == [1, 2, 3]
    assert len(stage.runs("send_refund")) == 1
    assert [call.status for call in snapshot.tool_calls] == ["succeeded", "succeeded"]
    assert worker.is_running


@pytest.mark.case("BR-005")
@pytest.mark.requirement("idempotency-key")
async def test_an_idempotent_write_sees_the_same_key_on_every_attempt(stage: Stage) -> None:
    worker = await stage.start_worker("after save_note")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("note", (Ask("save_note", "n"),)))
    await stage.gate("after save_note").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    call = call_of(snapshot, "save_note")
    runs = stage.runs("save_note")
    assert [one.attempt for one in runs] == [1, 2]
    assert {one.idempotency_key for one in runs} == {f"s/turn-1/{call.tool_call_id}"}
    assert call.status == "succeeded"
    assert call.attempts == 2


@pytest.mark.case("BR-006")
@pytest.mark.parametrize("run", range(5))
async def test_five_of_five_killed_payments_are_made_once(stage: Stage, run: int) -> None:
    worker = await stage.start_worker("after send_refund")
    session_id = f"s{run}"
    await stage.sessions.start_session(
        session_id, first_message=build_message("pay", (Ask("send_refund", f"payment {run}"),))
    )
    await stage.approve(session_id)
    await stage.gate("after send_refund").wait_for_arrivals()
    await worker.kill()
    await worker.start()
    stage.gate("after send_refund").open()

    snapshot = await stage.settle(session_id)

    assert len(stage.runs("send_refund")) == 1
    assert stage.gate("after send_refund").arrivals == (stage.runs("send_refund")[0].process_id,)
    assert call_of(snapshot, "send_refund").status == "outcome_unknown"


@pytest.mark.case("BR-009")
@pytest.mark.requirement("effect-retries")
async def test_an_unclassified_tool_that_was_entered_is_not_entered_again(stage: Stage) -> None:
    worker = await stage.start_worker("before post_letter")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("letter", (Ask("post_letter", "p"),)))
    await stage.approve("s")
    entered = await stage.gate("before post_letter").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker("before post_letter")

    snapshot = await stage.settle("s")

    assert stage.gate("before post_letter").arrivals == entered
    assert stage.runs("post_letter") == ()
    assert call_of(snapshot, "post_letter").status == "outcome_unknown"


@pytest.mark.requirement("writes-ordered")
async def test_ordered_writes_after_one_with_an_unknown_outcome_are_not_run(stage: Stage) -> None:
    worker = await stage.start_worker("after book_entry")
    await stage.sessions.start_session("s")
    asked = (Ask("book_entry", "b1"), Ask("sign_entry", "s1"), Ask("book_entry", "b2"))
    await stage.send("s", build_message("books", asked))
    await stage.approve("s")
    await stage.gate("after book_entry").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert [call.status for call in snapshot.tool_calls] == ["outcome_unknown", "not_run", "not_run"]
    assert [one.arguments["reference"] for one in stage.log.read()] == ["b1"]


@pytest.mark.requirement("outcome-truth")
async def test_a_write_whose_engine_died_before_the_commit_is_not_sent_again(stage: Stage) -> None:
    await stage.start_worker("leave CallSingleAttemptTool")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("notice", (Ask("send_notice", "n"),)))
    await stage.gate("leave CallSingleAttemptTool").wait_for_arrivals()
    await stage.engine.kill()
    stage.gate("leave CallSingleAttemptTool").open()
    await stage.engine.start()

    snapshot = await stage.settle("s")

    assert len(stage.runs("send_notice")) == 1
    assert call_of(snapshot, "send_notice").status == "outcome_unknown"
    assert answers(snapshot) == [build_answer("notice", 1)]
