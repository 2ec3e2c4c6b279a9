"""A transcript stays whole: every call has its result, and what was stored stays as it was."""

from __future__ import annotations

import pytest

from dex_agents.builtin_loop import ModelOutputItem, ModelToolResultItem
from tests.crash.agent import Ask, build_answer, build_message, read_requests
from tests.crash.stage import Stage, answers

pytestmark = pytest.mark.crash


@pytest.mark.case("BR-013")
@pytest.mark.requirement("results-adjacent")
async def test_after_a_kill_during_tools_every_call_in_the_next_request_has_its_result(stage: Stage) -> None:
    worker = await stage.start_worker("after look_up", "after send_notice")
    await stage.sessions.start_session("s")
    asked = (Ask("look_up", "l"), Ask("send_notice", "n"), Ask("save_note", "s"))
    await stage.send("s", build_message("three", asked))
    await stage.gate("after look_up").wait_for_arrivals()
    await stage.gate("after send_notice").wait_for_arrivals()
    await worker.kill()
    await stage.start_worker()

    snapshot = await stage.settle("s")

    assert [call.status for call in snapshot.tool_calls] == ["succeeded", "outcome_unknown", "succeeded"]
    last = read_requests(stage.folder)[-1].items
    place = next(place for place, item in enumerate(last) if isinstance(item, ModelOutputItem))
    asking = last[place]
    assert isinstance(asking, ModelOutputItem)
    results = [item for item in last[place + 1 : place + 4] if isinstance(item, ModelToolResultItem)]
    assert [result.model_call_id for result in results] == [call.model_call_id for call in asking.tool_calls]


@pytest.mark.case("BR-015")
@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_twenty_results_are_the_same_after_everything_was_restarted(stage: Stage, ending: str) -> None:
    worker = await stage.start_worker()
    await stage.sessions.start_session("s")
    asked = tuple(Ask("look_up", f"l{n}", output_characters=10_000 * (n % 5)) for n in range(20))
    await stage.send("s", build_message("twenty", asked))
    await stage.sessions.wait_for_idle("s")
    before = await stage.sessions.get_agent_snapshot("s")
    if ending == "stopped":
        assert await worker.stop() == 0
        assert await stage.engine.stop() == 0
    else:
        await worker.kill()
        await stage.engine.kill()
    await stage.engine.start()
    await worker.start()

    after = await stage.sessions.get_agent_snapshot("s")

    assert len(after.tool_calls) == 20
    assert after.tool_calls == before.tool_calls
    assert after.messages == before.messages
    assert {call.status for call in after.tool_calls} == {"succeeded"}
    await stage.settle("s")


async def test_several_turns_are_in_the_transcript_in_order_after_a_kill_in_each(stage: Stage) -> None:
    worker = await stage.start_worker("after look_up")
    await stage.sessions.start_session("s")
    for number in range(1, 4):
        await stage.send("s", build_message(f"turn {number}", (Ask("look_up", f"l{number}"),)))
        await stage.gate("after look_up").wait_for_arrivals(2 * number - 1)
        await worker.kill()
        await worker.start()
        await stage.gate("after look_up").wait_for_arrivals(2 * number)
        stage.gate("after look_up").open()
        await stage.sessions.wait_for_idle("s")
        stage.gate("after look_up").close()

    snapshot = await stage.settle("s")

    assert answers(snapshot) == [build_answer(f"turn {number}", 1) for number in range(1, 4)]
    assert [message.sequence for message in snapshot.messages] == list(range(1, len(snapshot.messages) + 1))
