"""Tool sources under a real session."""

from __future__ import annotations

from pathlib import Path

import pytest

from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import answers, ask, asking, build_flow, serve, wait_for_interrupts
from tests.unit.tool_sources.sources import ListedSource, build_tool, fail_to_list


@pytest.mark.requirement("source-policy")
@pytest.mark.requirement("source-routing")
async def test_a_call_of_a_source_runs_in_its_own_step_with_what_the_source_declared(tmp_path: Path) -> None:
    write = build_tool("put", effect=ToolEffect.IDEMPOTENT_WRITE, ordered=True, reference="v2")
    source = ListedSource("files", [build_tool("read"), write])
    async with serve(tmp_path / "a.db", build_flow(tool_sources=[source])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("put", {}), ("read", {}), ("put", {})))
        assert await answers(client, "s") == ["files: v2 | files: None | files: v2"]
        calls = (await client.get_agent_snapshot("s")).tool_calls
    assert [(call.effect, call.ordered, call.tool_source_reference) for call in calls] == [
        (ToolEffect.IDEMPOTENT_WRITE, True, "files:v2"),
        (ToolEffect.READ, False, "files"),
        (ToolEffect.IDEMPOTENT_WRITE, True, "files:v2"),
    ]
    assert [call.idempotency_key for call in source.executed if call.tool_name == "read"] == [
        f"s/turn-1/{calls[1].tool_call_id}"
    ]


@pytest.mark.requirement("source-down")
async def test_a_session_answers_while_its_source_is_down_and_uses_it_again_afterwards(
    tmp_path: Path,
) -> None:
    source = ListedSource("files", [build_tool("read")], fail_to_list(ConnectionError("refused")))
    async with serve(tmp_path / "a.db", build_flow(tool_sources=[source])) as client:
        await client.start_session("s")
        await ask(client, "s", "hello")
        await ask(client, "s", asking(("read", {})))
        source.lister = None
        progress = await ask(client, "s", asking(("read", {})))
        assert await answers(client, "s") == [
            "you said: hello",
            "The tool call failed: there is no tool named 'read'; available tools: none",
            "files: None",
        ]
    assert progress.last_turn_outcome == "completed"


@pytest.mark.case("BR-053")
@pytest.mark.parametrize("next_sources", [[], [ListedSource("files")]])
async def test_an_approved_call_whose_tool_left_its_source_fails_with_a_clear_text(
    tmp_path: Path, next_sources: list[ListedSource]
) -> None:
    pay = build_tool("pay", effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    before, after = ([ListedSource("files", [pay])], next_sources)
    async with serve(tmp_path / "a.db", build_flow(tool_sources=before)) as client:
        await client.start_session("s", first_message=asking(("pay", {})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
    async with serve(tmp_path / "a.db", build_flow(tool_sources=after)) as client:
        assert await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        progress = await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert progress.last_turn_outcome == "completed"
    assert call.status == "failed"
    assert "pay" in (call.error or "")


async def test_arguments_that_a_person_changes_are_checked_against_the_listed_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 10}}}
    pay = build_tool("pay", effect=ToolEffect.NON_IDEMPOTENT_WRITE, parameters=schema)
    source = ListedSource("bank", [pay])
    async with serve(tmp_path / "a.db", build_flow(tool_sources=[source])) as client:
        await client.start_session("s", first_message=asking(("pay", {"amount": 9})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        with pytest.raises(ValueError, match="/amount: must be at most 10"):
            await client.resolve_interrupt("s", asked.interrupt_id, "approve", arguments='{"amount": 11}')
        await client.resolve_interrupt("s", asked.interrupt_id, "approve", arguments='{"amount": 1}')
        await client.wait_for_idle("s")
    assert [call.arguments for call in source.executed] == ['{"amount": 1}']
