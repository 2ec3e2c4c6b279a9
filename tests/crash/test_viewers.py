"""A viewer is shown everything once, whoever dies and whenever it begins to watch."""

from __future__ import annotations

import pytest

from dex_agents import AgentEvent, AgentSnapshot
from dex_agents.wire.events import ToolCallStarted, TurnCompletedEvent
from tests.crash.agent import Ask, build_answer, build_message
from tests.crash.stage import Stage
from tests.oracles.session_view import SessionView, show_snapshot

pytestmark = pytest.mark.crash


class Viewer:
    """Somebody who took a snapshot and reads the events since."""

    def __init__(self, stage: Stage, snapshot: AgentSnapshot) -> None:
        self.view = SessionView(snapshot)
        self._events = stage.sessions.events("s", since=snapshot)

    async def watch_until(self, kind: type[AgentEvent]) -> None:
        async for event in self._events:
            self.view.take(event)
            if isinstance(event, kind):
                return

    async def watch_until_it_says(self, text: str) -> None:
        async for event in self._events:
            self.view.take(event)
            if self.view.screen.being_said == text:
                return


async def _join(stage: Stage) -> Viewer:
    return Viewer(stage, await stage.sessions.get_agent_snapshot("s"))


@pytest.mark.requirement("snapshot-and-events")
async def test_a_viewer_that_joins_in_the_middle_of_an_answer_sees_it_whole_and_once(stage: Stage) -> None:
    worker = await stage.start_worker("delta finished", "delta with")
    await stage.sessions.start_session("s")
    first = await _join(stage)
    await stage.send("s", build_message("story"))
    await stage.gate("delta finished").wait_for_arrivals()
    await first.watch_until_it_says("I have ")
    middle = await _join(stage)
    await middle.watch_until_it_says("I have ")
    assert middle.view.screen == first.view.screen
    await worker.kill()
    await stage.start_worker("delta with")
    await stage.gate("delta with").wait_for_arrivals()
    retried = await _join(stage)
    viewers = [first, middle, retried]
    for viewer in viewers:
        await viewer.watch_until_it_says("I have finished story ")
    stage.gate("delta with").open()
    for viewer in viewers:
        await viewer.watch_until(TurnCompletedEvent)
    await stage.sessions.wait_for_idle("s")
    snapshot = await stage.sessions.get_agent_snapshot("s")
    for viewer in viewers:
        assert viewer.view.screen == show_snapshot(snapshot)
    assert [text for _, _, text in show_snapshot(snapshot).said][1:] == [build_answer("story", 0)]


@pytest.mark.parametrize(("tool", "status"), [("save_note", "succeeded"), ("send_notice", "outcome_unknown")])
async def test_a_viewer_that_joins_while_a_tool_runs_sees_how_it_ends(
    stage: Stage, tool: str, status: str
) -> None:
    worker = await stage.start_worker(f"after {tool}")
    await stage.sessions.start_session("s")
    first = await _join(stage)
    await stage.send("s", build_message("one", (Ask(tool, "r"), Ask("look_up", "l"))))
    await stage.gate(f"after {tool}").wait_for_arrivals()
    middle = await _join(stage)
    await middle.watch_until(ToolCallStarted)
    await worker.kill()
    stage.gate(f"after {tool}").open()
    await stage.start_worker()
    for viewer in (first, middle):
        await viewer.watch_until(TurnCompletedEvent)
    await stage.sessions.wait_for_idle("s")
    expected = show_snapshot(await stage.sessions.get_agent_snapshot("s"))
    assert status in {call.status for call in expected.calls.values()}
    for viewer in (first, middle):
        assert viewer.view.screen == expected


async def test_a_turn_that_was_decided_and_not_committed_is_not_shown_as_lasting_for_ever(
    stage: Stage,
) -> None:
    worker = await stage.start_worker("leave RunModel")
    await stage.sessions.start_session("s")
    await stage.send("s", build_message("one"))
    await stage.gate("leave RunModel").wait_for_arrivals()
    joined = await _join(stage)
    await joined.watch_until(TurnCompletedEvent)
    assert joined.view.screen.status == "idle"
    await worker.kill()
    stage.gate("leave RunModel").open()
    await stage.start_worker()
    await joined.watch_until(TurnCompletedEvent)
    await stage.sessions.wait_for_idle("s")
    assert joined.view.screen == show_snapshot(await stage.sessions.get_agent_snapshot("s"))


async def test_a_viewer_that_comes_back_after_every_event_is_shown_each_once(stage: Stage) -> None:
    await stage.start_worker()
    await stage.sessions.start_session("s")
    begin = await stage.sessions.get_agent_snapshot("s")
    asked = (Ask("look_up", "l"), Ask("save_note", "n"))
    await stage.send("s", build_message("one", asked, (Ask("book_entry", "b"),)))
    await stage.sessions.wait_for_idle("s")
    at_once = Viewer(stage, begin)
    await at_once.watch_until(TurnCompletedEvent)

    again = SessionView(begin)
    cursor = begin.event_cursor
    while not again.events or not isinstance(again.events[-1], TurnCompletedEvent):
        visit = stage.sessions.events("s", since=begin, cursor=cursor)
        again.take(await anext(visit))
        cursor = visit.cursor

    assert again.events == at_once.view.events
    snapshot = await stage.sessions.get_agent_snapshot("s")
    assert again.screen == show_snapshot(snapshot)
    await stage.sessions.close_session("s")
    closed = await stage.sessions.get_agent_snapshot("s")
    assert [event async for event in stage.sessions.events("s", since=closed)] == []
