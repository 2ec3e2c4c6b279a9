"""Session settings, deadlines, and the ways out of an unknown outcome, on the real engine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents import (
    AgentEvent,
    AgentSessionClient,
    InvalidInputError,
    SettingsUpdated,
    ToolOutcomeUnknownError,
    texts,
)
from dex_agents.builtin_loop import InstructionContext, ModelRequest, ScriptedModelReply, function_tool
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy
from tests.integration.session.desk import (
    answers,
    ask,
    asking,
    build_flow,
    obedient,
    serve,
    wait_for_interrupts,
)


def _no_approval(*names: str) -> dict[str, ToolPolicy]:
    return {name: ToolPolicy(requires_approval=False) for name in names}


@function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
async def refund(order: str) -> str:
    """Lose the connection after the refund was sent."""
    raise ToolOutcomeUnknownError(f"no answer about {order}")


async def _events(client: AgentSessionClient, session_id: str, found: list[AgentEvent]) -> None:
    found.extend([event async for event in client.events(session_id)])


@pytest.mark.requirement("settings-next-call")
async def test_settings_apply_from_the_next_model_call(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> ScriptedModelReply:
        return ScriptedModelReply(text=request.instructions)

    def instructions(context: InstructionContext) -> str:
        return f"speak {context.session_settings.get('language', 'English')}"

    flow = build_flow(script=script, instructions=instructions)
    found: list[AgentEvent] = []
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", session_settings={"language": "French"}, first_message="one")
        watching = asyncio.create_task(_events(client, "s", found))
        await client.wait_for_idle("s")
        await client.update_session_settings("s", {"language": "Danish", "深": [1, {"a": None}]})
        await ask(client, "s", "two")
        await client.update_session_settings("s", {})
        await ask(client, "s", "three")
        snapshot = await client.get_agent_snapshot("s")
        said = await answers(client, "s")
        await client.close_session("s")
        await watching
    assert said == ["speak French", "speak Danish", "speak English"]
    assert snapshot.session_settings == {}
    assert [event.revision for event in found if isinstance(event, SettingsUpdated)] == [1, 2]


@pytest.mark.parametrize(
    "settings",
    [{"a": float("nan")}, {"a": object()}, {"a": "x" * (64 * 1024)}],
    ids=["nan", "object", "size"],
)
async def test_settings_that_can_not_be_stored_are_refused_and_change_nothing(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s", session_settings={"kept": True})
        with pytest.raises(InvalidInputError, match="settings"):
            await client.update_session_settings("s", settings)
        with pytest.raises(InvalidInputError, match="session_settings"):
            await client.start_session("t", session_settings=settings)
        assert (await client.get_agent_snapshot("s")).session_settings == {"kept": True}


@pytest.mark.requirement("deadline-is-nobody")
async def test_an_approval_that_nobody_gives_in_time_is_not_recorded_as_a_rejection_by_a_person(
    tmp_path: Path,
) -> None:
    flow = build_flow([refund], interrupt_deadline=timedelta(seconds=1))
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=asking(("refund", {"order": "55"})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert asked.deadline == asked.opened_at + timedelta(seconds=1)
        await client.wait_for_idle("s")
        assert not await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert (call.status, call.approval, call.error) == ("rejected", None, texts.APPROVAL_DEADLINE_PASSED)


@pytest.mark.requirement("settle-once")
async def test_a_person_settles_an_unknown_outcome_once_and_the_model_reads_it_next(tmp_path: Path) -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> ScriptedModelReply:
        requests.append(request)
        return obedient(request)

    flow = build_flow([refund], script, tool_policies=_no_approval("refund"))
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message=asking(("refund", {"order": "55"})))
        await client.wait_for_idle("s")
        (lost,) = (await client.get_agent_snapshot("s")).tool_calls
        assert lost.status == "outcome_unknown"
        settling = [
            client.settle_tool_outcome(
                "s", lost.tool_call_id, "succeeded", "55 was paid", person=f"clerk {number}"
            )
            for number in range(5)
        ]
        assert sum(await asyncio.gather(*settling)) == 1
        assert not await client.settle_tool_outcome("s", lost.tool_call_id, "failed", "no")
        with pytest.raises(InvalidInputError, match="tool_call_id"):
            await client.settle_tool_outcome("s", "nothing", "failed", "no")
        await ask(client, "s", "and now?")
        snapshot = await client.get_agent_snapshot("s")
    (settled,) = snapshot.tool_calls
    assert (settled.status, settled.output) == ("succeeded", "55 was paid")
    assert settled.settlement is not None
    assert settled.settlement.unknown_because == "no answer about 55"
    assert (settled.settlement.person or "").startswith("clerk")
    note = texts.outcome_settled("refund", lost.tool_call_id, True, "55 was paid")
    assert note in [message.text for message in snapshot.messages]
    assert any(note in getattr(item, "text", "") for item in requests[-1].items)
