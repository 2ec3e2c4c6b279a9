"""What a session deletes of its past, through the client, on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dex_agents import AgentSessionOptions, AgentUserMessage, CompactionPolicy
from dex_agents.builtin_loop import ModelRequest, ScriptedModelClient, ScriptedModelReply, function_tool
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, build_flow, obedient, serve
from tests.integration.session.test_compaction import SummarisingModel


@function_tool(effect=ToolEffect.READ)
async def look(n: int) -> str:
    """Look."""
    return f"result {n}"


@pytest.mark.requirement("retention")
async def test_covered_messages_are_deleted_and_the_snapshot_says_how_many(tmp_path: Path) -> None:
    model = SummarisingModel()
    options = AgentSessionOptions(keep_messages=6)
    flow = build_flow(script=model, options=options, compaction=CompactionPolicy(context_window_tokens=1_000))
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        for number in range(1, 13):
            await ask(client, "s", f"question {number}")
        snapshot = await client.get_agent_snapshot("s")

    assert snapshot.context_summary is not None
    dropped = snapshot.dropped_messages
    assert 0 < dropped <= snapshot.context_summary.covered_through
    assert [message.sequence for message in snapshot.messages] == list(range(dropped + 1, 25))
    assert len(model.turns) == 12
    assert snapshot.last_turn_outcome == "completed"


@pytest.mark.requirement("retention-uncovered")
async def test_uncovered_turns_go_with_their_records_only_when_that_was_asked_for(tmp_path: Path) -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> ScriptedModelReply:
        requests.append(request)
        return obedient(request)

    options = AgentSessionOptions(keep_turns=2, drop_uncovered=True)
    async with serve(tmp_path / "a.db", build_flow([look], script, options=options)) as client:
        await client.start_session("s")
        for number in range(1, 7):
            await ask(client, "s", asking(("look", {"n": number})))
        snapshot = await client.get_agent_snapshot("s")

    # The pass behind turn 6 may still be under way; the one behind turn 5 was committed before it began.
    kept = {message.turn_id for message in snapshot.messages}
    assert kept <= {"turn-4", "turn-5", "turn-6"}
    assert {"turn-5", "turn-6"} <= kept
    assert {call.turn_id for call in snapshot.tool_calls} == kept
    assert len({call.tool_call_id for call in snapshot.tool_calls}) == len(snapshot.tool_calls)
    assert len(ScriptedModelClient.user_texts(requests[-1])) == 3


async def test_without_rules_nothing_is_ever_deleted(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        for number in range(4):
            await ask(client, "s", f"question {number}")
        snapshot = await client.get_agent_snapshot("s")
    assert (snapshot.dropped_messages, len(snapshot.messages)) == (0, 8)


async def test_the_receipt_of_a_deleted_message_is_deleted_too(tmp_path: Path) -> None:
    options = AgentSessionOptions(keep_turns=1, drop_uncovered=True)
    async with serve(tmp_path / "a.db", build_flow(options=options)) as client:
        await client.start_session("s")
        first = AgentUserMessage("one", message_id="m1")
        assert await client.send_user_message("s", first)
        await client.wait_for_idle("s")
        assert not await client.send_user_message("s", first)
        for text in ("two", "three"):
            await ask(client, "s", text)
        assert await client.send_user_message("s", first)
        await client.wait_for_idle("s")
