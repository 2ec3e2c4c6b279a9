"""A turn goes on, and a message that was acknowledged is answered, whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator

import pytest

from dex_agents import AgentEvent, SessionEvents
from dex_agents.wire.events import TextDelta, TurnCompletedEvent, TurnStarted, UserMessageEvent
from tests.crash.agent import Ask, build_answer, build_message, read_requests
from tests.crash.stage import Stage, answers, call_of

pytestmark = pytest.mark.crash


@pytest.mark.case("BR-046")
async def test_a_message_during_an_open_question_waits_for_its_turn(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("first", (Ask("send_refund", "r"),)))
    asked = await stage.wait_for_interrupts("s")
    await stage.send("s", build_message("second"))
    await worker.kill()
    await stage.engine.kill()
    await stage.engine.start()
    await worker.start()

    waiting = await stage.sessions.get_agent_snapshot("s")

    assert waiting.interrupts == asked
    assert [message.message_id for message in waiting.queued_messages] == ["m2"]
    await stage.approve("s")
    snapshot = await stage.settle("s")
    assert answers(snapshot) == [build_answer("first", 1), build_answer("second", 0)]


async def test_a_model_call_that_was_lost_is_repeated_and_its_text_replaced(stage: Stage) -> None:
    worker = await stage.start_worker("delta finished")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("story"))
    events = stage.sessions.events("s")
    await stage.gate("delta finished").wait_for_arrivals()
    shown: dict[tuple[str, int], str] = {}
    async for event in events:
        if isinstance(event, TextDelta):
            shown[event.step, event.attempt] = event.text
            break
    await worker.kill()
    await stage.start_worker()
    async for event in events:
        if isinstance(event, TextDelta):
            shown[event.step, event.attempt] = shown.get((event.step, event.attempt), "") + event.text
        if isinstance(event, TurnCompletedEvent):
            break

    snapshot = await stage.settle("s")

    (step,) = {step for step, _ in shown}
    assert shown == {(step, 1): "I have ", (step, 2): build_answer("story", 0)}
    assert answers(snapshot) == [build_answer("story", 0)]
    first, second, *_ = read_requests(stage.folder)
    assert first == second


async def test_a_late_viewer_is_not_shown_what_a_lost_attempt_still_had_to_say(stage: Stage) -> None:
    worker = await stage.start_worker("delta with")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("story"))
    await stage.gate("delta with").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()
    await stage.settle("s")

    texts: dict[int, str] = {}
    async for event in stage.sessions.events("s"):
        if isinstance(event, TextDelta):
            assert event.attempt >= max(texts, default=1)
            texts[event.attempt] = texts.get(event.attempt, "") + event.text
        if isinstance(event, TurnCompletedEvent):
            break

    assert texts[max(texts)] == build_answer("story", 0)


async def test_a_viewer_goes_on_reading_after_the_engine_was_restarted(stage: Stage) -> None:
    await stage.start_worker()
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("before"))
    viewer = stage.sessions.events("s")
    async for event in viewer:
        if isinstance(event, TurnCompletedEvent):
            break
    await stage.engine.kill()
    await stage.engine.start()
    await stage.send("s", build_message("after"))

    seen = [event async for event in _until_the_turn_is_over(viewer)]

    assert [type(event) for event in seen][:2] == [TurnStarted, UserMessageEvent]
    assert {event.turn_id for event in seen} == {"turn-2"}
    said = "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert said == build_answer("after", 0)
    await stage.settle("s")


async def _until_the_turn_is_over(events: SessionEvents) -> AsyncGenerator[AgentEvent]:
    async for event in events:
        yield event
        if isinstance(event, TurnCompletedEvent):
            return


async def test_of_two_workers_the_one_left_goes_on(stage: Stage) -> None:
    workers = [await stage.start_worker("after save_note") for _ in range(2)]
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("note", (Ask("save_note", "n"), Ask("look_up", "l"))))
    (held_by,) = await stage.gate("after save_note").wait_for_arrivals()
    (holder,) = (worker for worker in workers if worker.pid == held_by)
    (other,) = (worker for worker in workers if worker.pid != held_by)
    await holder.kill()
    assert await stage.gate("after save_note").wait_for_arrivals(2) == (held_by, other.pid)
    stage.gate("after save_note").open()

    snapshot = await stage.settle("s")

    assert [call.status for call in snapshot.tool_calls] == ["succeeded", "succeeded"]
    assert {one.idempotency_key for one in stage.runs("save_note")} == {
        f"s/turn-1/{call_of(snapshot, 'save_note').tool_call_id}"
    }
    assert answers(snapshot) == [build_answer("note", 2)]


@pytest.mark.requirement("message-kept")
async def test_a_message_acknowledged_right_before_the_engine_dies_is_answered(stage: Stage) -> None:
    await stage.start_worker()
    await stage.sessions.start_session("s")
    for number in range(1, 4):
        await stage.send("s", build_message(f"message {number}"))
        await stage.engine.kill()
        await stage.engine.start()

    snapshot = await stage.settle("s")

    assert answers(snapshot) == [build_answer(f"message {number}", 0) for number in range(1, 4)]


async def test_a_message_sent_while_nothing_runs_is_answered_once(stage: Stage) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    await worker.kill()
    await stage.engine.kill()
    await stage.engine.start()
    await worker.start()
    for _ in range(2):
        await stage.send("s", build_message("again"), message_id="the same")

    snapshot = await stage.settle("s")

    assert answers(snapshot) == [build_answer("again", 0)]


@pytest.mark.parametrize("victim", ["worker", "engine"])
@pytest.mark.requirement("message-once")
async def test_a_message_whose_acceptance_was_cut_off_is_sent_again_by_itself(
    stage: Stage, victim: str
) -> None:
    worker = await stage.start_worker("accept message")
    await stage.sessions.start_session("s")
    sending = asyncio.create_task(stage.send("s", build_message("cut off")))
    await stage.gate("accept message").wait_for_arrivals()
    if victim == "worker":
        await worker.kill()
        await stage.start_worker()
    else:
        await stage.engine.kill()
        stage.gate("accept message").open()
        await stage.engine.start()
    await sending

    snapshot = await stage.settle("s")

    assert answers(snapshot) == [build_answer("cut off", 0)]


async def test_what_a_frozen_worker_says_after_it_was_given_up_changes_nothing(stage: Stage) -> None:
    frozen = await stage.start_worker("leave CallSingleAttemptTool")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("notice", (Ask("send_notice", "n"),)))
    await stage.gate("leave CallSingleAttemptTool").wait_for_arrivals()
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        await stage.engine.kill()
        await stage.engine.start()
        await stage.start_worker()
        await stage.sessions.wait_for_idle("s")
        stage.gate("leave CallSingleAttemptTool").open()
    finally:
        os.kill(frozen.pid, signal.SIGCONT)

    snapshot = await stage.settle("s")

    assert call_of(snapshot, "send_notice").status == "outcome_unknown"
    assert len(stage.runs("send_notice")) == 1
