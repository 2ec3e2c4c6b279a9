"""Events from a tool's thread."""

from __future__ import annotations

import asyncio

from dex_agents.builtin_loop.tool_call_context import LoopBoundEventWriter
from tests.unit.builtin_loop.turns import RecordedEvents


def test_events_of_a_thread_that_outlived_its_loop_are_dropped() -> None:
    events = RecordedEvents()
    loop = asyncio.new_event_loop()
    writer = LoopBoundEventWriter(events, loop)
    writer.write_text_delta("before")
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    writer.write_text_delta("after")
    assert events.text == ["before"]
