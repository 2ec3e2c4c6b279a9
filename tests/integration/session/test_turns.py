"""Turns through the client, on the real engine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents import (
    AgentUserMessage,
    AgentWorker,
    EngineUnreachableError,
    InvalidInputError,
    SessionAlreadyExistsError,
    SessionClosedError,
    SessionNotFoundError,
    SessionTimeoutError,
    limits,
)
from dex_agents.builtin_loop import ModelRequest, ScriptedModelReply, function_tool
from dex_agents.wire.events import TextDelta, ToolCallCompleted, TurnCompletedEvent
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import answers, ask, asking, build_flow, obedient, serve


async def test_a_message_is_answered_and_stored_in_order(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        progress = await ask(client, "s", "hello")
        snapshot = await client.get_agent_snapshot("s")
    assert (progress.status, progress.last_turn_outcome) == ("idle", "completed")
    assert [(one.sequence, one.role, one.text) for one in snapshot.messages] == [
        (1, "user", "hello"),
        (2, "assistant", "you said: hello"),
    ]
    assert snapshot.usage.model_calls == 1


async def test_the_text_of_the_events_is_the_stored_answer(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s", first_message="one two three")
        streamed = ""
        async for event in client.events("s"):
            if isinstance(event, TextDelta):
                streamed += event.text
            if isinstance(event, TurnCompletedEvent):
                break
        await client.wait_for_idle("s")
        assert [streamed] == await answers(client, "s")


@pytest.mark.requirement("snapshot-and-events")
async def test_events_from_the_cursor_of_a_snapshot_leave_nothing_out(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s", first_message="first")
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
        await client.send_user_message("s", "second")
        streamed = ""
        async for event in client.events("s", cursor=snapshot.event_cursor):
            if isinstance(event, TextDelta):
                streamed += event.text
            if isinstance(event, TurnCompletedEvent) and event.turn_id == "turn-2":
                break
    assert streamed == "you said: second"


@pytest.mark.requirement("message-order")
async def test_messages_sent_during_a_turn_each_start_a_turn_of_their_own_in_order(tmp_path: Path) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def slow_first(request: ModelRequest) -> ScriptedModelReply:
        entered.set()
        await gate.wait()
        return ScriptedModelReply(text=f"{len(request.items)} items")

    async with serve(tmp_path / "a.db", build_flow(script=slow_first)) as client:
        await client.start_session("s", first_message="a")
        await entered.wait()
        await client.send_user_message("s", "b")
        await client.send_user_message("s", "c")
        queued = (await client.get_agent_snapshot("s")).queued_messages
        gate.set()
        await client.wait_for_idle("s")
        snapshot = await client.get_agent_snapshot("s")
    assert [one.text for one in queued] == ["b", "c"]
    assert [(one.turn_id, one.text) for one in snapshot.messages if one.role == "user"] == [
        ("turn-1", "a"),
        ("turn-2", "b"),
        ("turn-3", "c"),
    ]
    assert snapshot.queued_messages == ()


@pytest.mark.requirement("message-once")
@pytest.mark.case("BR-045")
async def test_fifty_concurrent_messages_are_fifty_even_when_each_is_sent_twice(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        sends = [AgentUserMessage(f"text {n}", f"id-{n}") for n in range(50) for _ in range(2)]
        accepted = await asyncio.gather(*(client.send_user_message("s", one) for one in sends))
        await client.wait_for_idle("s", timeout=90)
        snapshot = await client.get_agent_snapshot("s")
    users = [message for message in snapshot.messages if message.role == "user"]
    assert sum(accepted) == 50
    assert sorted(one.message_id or "" for one in users) == sorted(f"id-{n}" for n in range(50))
    assert [one.turn_id for one in users] == [f"turn-{n}" for n in range(1, 51)]


@pytest.mark.requirement("input-checked")
@pytest.mark.case("BR-044")
@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "blank"), (" \n\u2003", "blank"), ("x" * (limits.MAX_USER_TEXT_BYTES + 1), "limit is 1048576")],
)
async def test_a_text_that_breaks_a_rule_is_refused_and_nothing_is_stored(
    tmp_path: Path, text: str, problem: str
) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        with pytest.raises(InvalidInputError, match=problem) as caught:
            await client.send_user_message("s", text)
        assert caught.value.field == "text"
        await ask(client, "s", "still here")
        assert await answers(client, "s") == ["you said: still here"]


async def test_calls_on_sessions_that_are_not_there_say_so(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        for call in (
            client.send_user_message("nobody", "x"),
            client.get_agent_snapshot("nobody"),
            client.wait_for_idle("nobody"),
            client.cancel_turn("nobody"),
            client.close_session("nobody"),
            client.resolve_interrupt("nobody", "approval:x", "approve"),
        ):
            with pytest.raises(SessionNotFoundError, match="nobody"):
                await call


@pytest.mark.parametrize("session_id", ["", " ", "a/b", "a:b", "a$b", "a\nb", "x" * 257])
async def test_a_session_id_that_the_engine_cannot_keep_is_refused(tmp_path: Path, session_id: str) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        with pytest.raises(InvalidInputError) as caught:
            await client.start_session(session_id)
        assert caught.value.field == "session_id"


async def test_a_session_id_names_one_session_for_ever(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        with pytest.raises(SessionAlreadyExistsError, match="already in use"):
            await client.start_session("s")
        await client.close_session("s")
        with pytest.raises(SessionAlreadyExistsError):
            await client.start_session("s")


async def test_a_closed_session_takes_no_message_and_stays_readable(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s", first_message="hello")
        await client.wait_for_idle("s")
        summary = await client.close_session("s")
        with pytest.raises(SessionClosedError, match="closed"):
            await client.send_user_message("s", "too late")
        assert (await client.close_session("s")) == summary
        snapshot = await client.get_agent_snapshot("s")
    assert (summary.turn_count, summary.message_count) == (1, 2)
    assert (snapshot.status, len(snapshot.messages)) == ("closed", 2)


async def test_a_busy_session_is_reported_when_the_bound_is_reached(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def stuck(_: ModelRequest) -> ScriptedModelReply:
        await gate.wait()
        return ScriptedModelReply(text="done")

    async with serve(tmp_path / "a.db", build_flow(script=stuck)) as client:
        await client.start_session("s", first_message="x")
        with pytest.raises(SessionTimeoutError, match="did not become idle within 1 s"):
            await client.wait_for_idle("s", timeout=1)
        gate.set()
        assert (await client.wait_for_idle("s")).last_turn_outcome == "completed"


@pytest.mark.requirement("turn-fails-readably")
async def test_a_model_that_fails_for_good_fails_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    broken = True

    def script(request: ModelRequest) -> ScriptedModelReply:
        if broken:
            raise RuntimeError("provider is down")
        return ScriptedModelReply(text=f"back, with {len(request.items)} items")

    async with serve(tmp_path / "a.db", build_flow(script=script)) as client:
        await client.start_session("s")
        failed = await ask(client, "s", "first")
        broken = False
        after = await ask(client, "s", "second")
        snapshot = await client.get_agent_snapshot("s")
    assert failed.last_turn_outcome == "failed"
    assert "provider is down" in (failed.last_turn_error or "")
    assert after.last_turn_outcome == "completed"
    assert [one.role for one in snapshot.messages] == ["user", "note", "user", "assistant"]


@pytest.mark.case("BR-055")
async def test_empty_answers_fail_the_turn_after_a_bounded_number_of_calls(tmp_path: Path) -> None:
    calls = 0

    def script(_: ModelRequest) -> ScriptedModelReply:
        nonlocal calls
        calls += 1
        return ScriptedModelReply(text=" ", reasoning="thinking without end")

    async with serve(tmp_path / "a.db", build_flow(script=script)) as client:
        await client.start_session("s")
        progress = await ask(client, "s", "x")
    assert calls == limits.MAX_MODEL_CALL_ATTEMPTS
    assert (progress.last_turn_outcome, progress.last_turn_error) == (
        "failed",
        "the model returned neither text nor a tool call in 3 attempts",
    )


@pytest.mark.requirement("session-goes-on")
@pytest.mark.case("BR-089")
async def test_lone_surrogates_are_replaced_wherever_they_come_in(tmp_path: Path) -> None:
    seen: list[str] = []

    @function_tool(effect=ToolEffect.READ)
    async def echo(text: str) -> str:
        """Return the text with a lone surrogate."""
        return f"{text}\ud99c"

    def script(request: ModelRequest) -> ScriptedModelReply:
        seen.append(repr(request.items))
        return ScriptedModelReply(text="bad \ud99c text")

    async with serve(tmp_path / "a.db", build_flow([echo], script)) as client:
        await client.start_session("s", first_message="user \ud800 text")
        await client.wait_for_idle("s")
        await ask(client, "s", "again")
        snapshot = await client.get_agent_snapshot("s")
    assert snapshot.messages[0].text == "user \ufffd text"
    assert snapshot.messages[1].text == "bad \ufffd text"
    assert len(seen) == 2


async def test_a_session_with_many_large_values_goes_on(tmp_path: Path) -> None:
    """More than the 4 MiB that one reply to a Dex client may hold: stored values are read one by one."""

    @function_tool(effect=ToolEffect.READ)
    async def dump(letter: str) -> str:
        """Return a megabyte."""
        return letter * limits.MAX_TOOL_OUTPUT_BYTES

    async with serve(tmp_path / "a.db", build_flow([dump])) as client:
        await client.start_session("s")
        for turn in range(3):
            text = asking(*(("dump", {"letter": chr(97 + turn * 2 + n)}) for n in range(2)))
            progress = await ask(client, "s", text)
            assert progress.last_turn_outcome == "completed"
        await ask(client, "s", "x" * limits.MAX_USER_TEXT_BYTES)
        snapshot = await client.get_agent_snapshot("s")
    outputs = [call.output or "" for call in snapshot.tool_calls]
    assert [output[0] for output in outputs] == ["a", "b", "c", "d", "e", "f"]
    assert {len(output) for output in outputs} == {limits.MAX_TOOL_OUTPUT_BYTES}


async def test_an_output_beyond_the_limit_is_cut_and_says_so(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def dump() -> str:
        """Return too much."""
        return "é" * limits.MAX_TOOL_OUTPUT_BYTES

    async with serve(tmp_path / "a.db", build_flow([dump])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("dump", {})))
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert (call.output or "").endswith("[The output was cut: 1048576 of 2097152 bytes are shown.]")


async def test_a_worker_without_an_engine_says_which_address_did_not_answer(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/nobody.sock"
    worker = AgentWorker(build_flow(), server_address=address, ready_timeout=timedelta(seconds=1))
    with pytest.raises(EngineUnreachableError, match=r"nobody.sock.*within 1 s"):
        await worker.__aenter__()


async def test_a_long_answer_is_streamed_whole_and_a_long_result_is_cut_in_the_live_view(
    tmp_path: Path,
) -> None:
    answer = "é" * 300_000

    @function_tool(effect=ToolEffect.READ)
    async def dump() -> str:
        """Return much."""
        return "x" * limits.MAX_TOOL_OUTPUT_BYTES

    def script(request: ModelRequest) -> ScriptedModelReply:
        return ScriptedModelReply(text=answer) if len(request.items) > 1 else obedient(request)

    async with serve(tmp_path / "a.db", build_flow([dump], script)) as client:
        await client.start_session("s", first_message=asking(("dump", {})))
        streamed, outputs = "", list[str | None]()
        async for event in client.events("s"):
            if isinstance(event, TextDelta):
                streamed += event.text
            if isinstance(event, ToolCallCompleted):
                outputs.append(event.tool_call.output)
            if isinstance(event, TurnCompletedEvent):
                break
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert streamed == answer
    assert [len(output or "") for output in outputs] == [limits.MAX_EVENT_TEXT_BYTES]
    assert len(call.output or "") == limits.MAX_TOOL_OUTPUT_BYTES
