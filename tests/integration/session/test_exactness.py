"""Commands that meet each other, lost replies and late Steps: what a caller is told is what happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dex import (
    AsyncClient,
    AsyncContext,
    ClientOptions,
    Context,
    RPCInvokeOptions,
    RpcLockConflictError,
    RPCResult,
    Wait,
    WorkerTarget,
    rpc,
)
from dex import StepDecision as Decision

from dex_agents import (
    AgentEvent,
    AgentSessionClient,
    AgentSessionFlow,
    AgentSessionOptions,
    AgentUserMessage,
    AgentWorker,
    FrameworkMessage,
    InvalidInputError,
    ToolCallCompleted,
    ToolEffect,
    TurnCancelled,
    TurnStarted,
    UserMessageEvent,
    build_session_registry,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    FunctionTool,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.engine import LocalEngine
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.calls import SessionCalls
from dex_agents.session.persistence import (
    IDLE,
    INBOX,
    INTERRUPTS,
    RECEIPTS,
    TOOL_CALLS,
    TURN_GATE,
    map_instance,
    message_receipt_id,
)
from dex_agents.session.steps.cancel_turn import CancelTurn
from dex_agents.session.steps.lifecycle import AwaitUserMessage, StartSession
from dex_agents.session.steps.run_model import RunModel
from dex_agents.session.turn_rpcs import TurnRpcs
from dex_agents.wire.rpc_values import (
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    ResolveInterruptRequest,
    SendUserMessageRequest,
)
from dex_agents.wire.step_inputs import IdleStepInput, SessionStepInput, TurnStepInput
from tests.integration.session.desk import (
    answers,
    ask,
    asking,
    build_flow,
    obedient,
    serve,
    wait_for_interrupts,
)


@asynccontextmanager
async def _serve_with_sdk_client(
    database: Path, flow: AgentSessionFlow
) -> AsyncGenerator[tuple[AgentSessionClient, AsyncClient], None]:
    async with LocalEngine(database) as engine, AgentWorker(flow, server_address=engine.server_address):
        cache = FetchingBlobCache(engine.server_address)
        options = ClientOptions(server_address=engine.server_address, worker_target=WorkerTarget(pull=True))
        sdk_client = AsyncClient(build_session_registry(flow), cache, options)
        try:
            yield AgentSessionClient(sdk_client, flow), sdk_client
        finally:
            await sdk_client.close()
            cache.close()


def _pay() -> FunctionTool:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay() -> str:
        """Pay."""
        return "paid"

    return pay


async def test_a_write_that_was_not_started_does_not_run_after_a_cancellation(tmp_path: Path) -> None:
    ran: list[str] = []
    entered, go_on = asyncio.Event(), asyncio.Event()

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
    async def pay(name: str) -> str:
        """Pay."""
        ran.append(name)
        entered.set()
        await go_on.wait()
        return "paid"

    flow = build_flow([pay])
    async with (
        LocalEngine(tmp_path / "a.db") as engine,
        # Room for one Step beside the RPCs, so the second call waits.
        AgentWorker(flow, server_address=engine.server_address, max_concurrent_tasks=2),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s", first_message=asking(("pay", {"name": "a"}), ("pay", {"name": "b"})))
        await entered.wait()
        assert await client.cancel_turn("s")
        go_on.set()
        await client.wait_for_idle("s")
        calls = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", "still here")
    assert len(ran) == 1
    assert sorted(call.status for call in calls) == ["not_run", "succeeded"]


async def test_the_repeat_of_a_cancellation_is_told_that_it_took_effect(tmp_path: Path) -> None:
    flow = build_flow([_pay()])
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s", first_message=asking(("pay", {})))
        await wait_for_interrupts(client, "s", 1)
        # A wait that begins holds the gate for a moment; what it refuses has had no effect.
        request, calls = CancelTurnRequest("request-1"), SessionCalls(sdk_client)
        first = await calls.repeat("s", lambda: sdk_client.invoke_rpc(flow.cancel_turn, "s", request))
        await client.wait_for_idle("s")
        repeat = await calls.repeat("s", lambda: sdk_client.invoke_rpc(flow.cancel_turn, "s", request))
    assert (first.verdict, repeat.verdict) == ("applied", "applied")


async def test_the_repeat_of_an_approval_is_told_that_it_took_effect(tmp_path: Path) -> None:
    flow = build_flow([_pay()])
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s", first_message=asking(("pay", {})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        request = ResolveInterruptRequest(asked.interrupt_id, "approve", "request-1")
        instance = map_instance(asked.interrupt_id)
        loads = (
            RECEIPTS.load(instance),
            INTERRUPTS.load(instance),
            TOOL_CALLS.load(map_instance(asked.tool_call_id)),
        )
        options, calls = RPCInvokeOptions(load_attribute_map_instances=loads), SessionCalls(sdk_client)
        first = await calls.repeat(
            "s", lambda: sdk_client.invoke_rpc(flow.resolve_interrupt, "s", request, options=options)
        )
        await client.wait_for_idle("s")
        repeat = await calls.repeat(
            "s", lambda: sdk_client.invoke_rpc(flow.resolve_interrupt, "s", request, options=options)
        )
    assert (first.verdict, repeat.verdict) == ("applied", "applied")


class _HeldFlow(AgentSessionFlow):
    """Holds the answer to a command back after it was decided."""

    def __init__(self, script: Any) -> None:
        definition = AgentDefinition(name="desk", model=ScriptedModelClient(script))
        super().__init__(BuiltinLoopAgentRunner(definition), "Desk")
        self.decided, self.may_commit = asyncio.Event(), asyncio.Event()

    async def hold(self) -> None:
        self.decided.set()
        await self.may_commit.wait()


class _HeldCancellation(_HeldFlow):
    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(INBOX,))
    async def cancel_turn(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, context: Context, input: CancelTurnRequest
    ) -> RPCResult[CommandReply]:
        result = TurnRpcs.cancel_turn(self, context, input)
        await self.hold()
        return result


class _HeldBegin(_HeldFlow):
    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(IDLE,))
    async def begin_turn(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, context: Context, input: SendUserMessageRequest
    ) -> RPCResult[CommandReply]:
        result = TurnRpcs.begin_turn(self, context, input)
        await self.hold()
        return result


async def test_a_message_whose_begin_was_overtaken_is_queued_behind_the_other(tmp_path: Path) -> None:
    flow = _HeldBegin(obedient)
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s")
        await client.wait_for_idle("s")
        sending = asyncio.create_task(client.send_user_message("s", AgentUserMessage("second", "m-2")))
        await flow.decided.wait()
        receipt = map_instance(message_receipt_id("m-1"))
        options = RPCInvokeOptions(load_attribute_map_instances=(RECEIPTS.load(receipt),))
        queued = SendUserMessageRequest("m-1", "first", "request-1")
        await sdk_client.invoke_rpc(flow.send_user_message, "s", queued, options=options)
        flow.may_commit.set()
        assert await sending
        await client.wait_for_idle("s")
        assert await answers(client, "s") == ["you said: first", "you said: second"]


async def test_messages_keep_their_order_while_the_session_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_wait = asyncio.Event()
    wait_for = AwaitUserMessage.wait_for

    def held_back(self: AwaitUserMessage, context: Context, input: IdleStepInput) -> Wait:
        if not may_wait.is_set():
            raise RuntimeError("lost")
        return wait_for(self, context, input)

    monkeypatch.setattr(AwaitUserMessage, "wait_for", held_back)
    flow = build_flow()
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s")
        await client.wait_for_idle("s")
        receipt = map_instance(message_receipt_id("m-1"))
        options = RPCInvokeOptions(load_attribute_map_instances=(RECEIPTS.load(receipt),))
        queued = SendUserMessageRequest("m-1", "first", "request-1")
        await sdk_client.invoke_rpc(flow.send_user_message, "s", queued, options=options)
        assert await client.send_user_message("s", "second")
        assert len(await client.list_queued_messages("s")) == 2
        may_wait.set()
        await client.wait_for_idle("s")
        assert await answers(client, "s") == ["you said: first", "you said: second"]


async def test_a_session_that_is_closed_while_a_message_begins_its_turn_ends(tmp_path: Path) -> None:
    flow = _HeldBegin(obedient)
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s")
        await client.wait_for_idle("s")
        sending = asyncio.create_task(client.send_user_message("s", "hello"))
        await flow.decided.wait()
        # Decided now, it would not know of the turn and would leave it running in a closed session.
        with pytest.raises(RpcLockConflictError):
            await sdk_client.invoke_rpc(flow.close_session, "s", CloseSessionRequest("request-1"))
        flow.may_commit.set()
        assert await sending
        assert (await client.close_session("s")).turn_count == 1
        snapshot = await client.get_agent_snapshot("s")
    assert snapshot.messages[0].text == "hello"
    assert snapshot.last_turn_outcome in ("cancelled", "completed")


@pytest.mark.requirement("message-once")
async def test_of_messages_sent_at_once_each_gets_one_turn(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        await client.wait_for_idle("s")
        texts = [f"number {number}" for number in range(20)]
        sent = await asyncio.gather(*(client.send_user_message("s", text) for text in texts))
        progress = await client.wait_for_idle("s")
        said = await answers(client, "s")
    assert all(sent)
    assert progress.turn_count == len(texts)
    assert set(said) == {f"you said: {text}" for text in texts}


@pytest.mark.requirement("snapshot-and-events")
async def test_viewers_see_a_turn_that_was_cancelled_before_its_first_model_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = asyncio.Event()

    async def lost(self: RunModel, context: AsyncContext, input: TurnStepInput) -> Decision:
        entered.set()
        raise RuntimeError("lost")

    monkeypatch.setattr(RunModel, "execute", lost)
    async with serve(tmp_path / "a.db", build_flow()) as client:
        await client.start_session("s")
        await client.wait_for_idle("s")
        await client.send_user_message("s", AgentUserMessage("hello", "m-1"))
        await entered.wait()
        assert await client.cancel_turn("s")
        await client.wait_for_idle("s")
        seen: list[AgentEvent] = []
        async for event in client.events("s"):
            seen.append(event)
            if isinstance(event, TurnCancelled):
                break
    assert [type(event) for event in seen] == [TurnStarted, UserMessageEvent, TurnCancelled]
    assert [event.message_id for event in seen if isinstance(event, UserMessageEvent)] == ["m-1"]


async def test_a_cancellation_that_a_finished_turn_overtook_did_not_take_effect(tmp_path: Path) -> None:
    called, may_answer = asyncio.Event(), asyncio.Event()

    async def script(_: ModelRequest) -> ScriptedModelReply:
        called.set()
        await may_answer.wait()
        return ScriptedModelReply(text="done")

    flow = _HeldCancellation(script)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s", first_message="go")
        await called.wait()
        cancelling = asyncio.create_task(client.cancel_turn("s"))
        await flow.decided.wait()
        may_answer.set()
        await client.wait_for_idle("s")
        flow.may_commit.set()
        assert not await cancelling
        assert (await client.get_progress("s")).last_turn_outcome == "completed"


async def test_a_result_that_comes_while_the_turn_is_being_ended_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, may_finish, decided, may_end = (asyncio.Event() for _ in range(4))
    execute = CancelTurn.execute

    async def held_back(self: CancelTurn, context: AsyncContext, input: TurnStepInput) -> Decision:
        decision = await execute(self, context, input)
        if not decided.is_set():
            decided.set()
            await may_end.wait()
        return decision

    monkeypatch.setattr(CancelTurn, "execute", held_back)

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
    async def pay() -> str:
        """Pay."""
        entered.set()
        await may_finish.wait()
        return "paid"

    options = AgentSessionOptions(cancel_grace=timedelta(seconds=1))
    async with serve(tmp_path / "a.db", build_flow([pay], options=options)) as client:
        await client.start_session("s", first_message=asking(("pay", {})))
        await entered.wait()
        assert await client.cancel_turn("s")
        await decided.wait()
        may_finish.set()
        async for event in client.events("s"):
            if isinstance(event, ToolCallCompleted):
                break
        # The event comes before its commit; the record is what the end of the turn must respect.
        while (await client.get_agent_snapshot("s")).tool_calls[0].status == "running":
            await asyncio.sleep(0)
        may_end.set()
        await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
    assert (call.status, call.output) == ("succeeded", "paid")


@pytest.mark.requirement("message-once")
async def test_the_id_of_the_first_message_names_one_message(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow()) as client:
        message = AgentUserMessage("pay 10", "m-1")
        await client.start_session("s", first_message=message)
        await client.wait_for_idle("s")
        assert not await client.send_user_message("s", message)
        snapshot = await client.get_agent_snapshot("s")
    assert [one.message_id for one in snapshot.messages if one.role == "user"] == ["m-1"]


async def test_a_message_id_never_answers_a_question(tmp_path: Path) -> None:
    async with serve(tmp_path / "a.db", build_flow([_pay()])) as client:
        await client.start_session("s", first_message=asking(("pay", {})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert await client.send_user_message("s", AgentUserMessage("yes, do it", asked.interrupt_id))
        assert await client.resolve_interrupt("s", asked.interrupt_id, "approve")


async def test_a_session_that_was_closed_before_it_began_begins_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, closing = asyncio.Event(), asyncio.Event()
    execute = StartSession.execute

    async def lost_until_closing(
        self: StartSession,
        context: AsyncContext,
        input: SessionStepInput,
    ) -> Decision:
        entered.set()
        if not closing.is_set():
            raise RuntimeError("lost")
        return await execute(self, context, input)

    monkeypatch.setattr(StartSession, "execute", lost_until_closing)
    flow = build_flow()
    async with _serve_with_sdk_client(tmp_path / "a.db", flow) as (client, sdk_client):
        await client.start_session("s", first_message=AgentUserMessage("hello", "m-1"))
        await entered.wait()
        while True:
            with suppress(RpcLockConflictError):
                await sdk_client.invoke_rpc(flow.close_session, "s", CloseSessionRequest("request-1"))
                break
        closing.set()
        summary = await client.close_session("s")
        snapshot = await client.get_agent_snapshot("s")
    assert summary.turn_count == 0
    assert [(one.role, one.message_id) for one in snapshot.messages] == [("user", "m-1"), ("note", None)]


@pytest.mark.parametrize("model_call_id", ["call\n1", "\u200b", " ", "c" * 400])
async def test_a_question_can_be_answered_whatever_id_the_model_gave(
    tmp_path: Path, model_call_id: str
) -> None:
    def script(request: ModelRequest) -> ScriptedModelReply:
        if ScriptedModelClient.tool_results(request):
            return ScriptedModelReply(text="done")
        return ScriptedModelReply(tool_calls=(ScriptedToolCall("pay", {}, model_call_id),))

    async with serve(tmp_path / "a.db", build_flow([_pay()], script)) as client:
        await client.start_session("s", first_message="go")
        (asked,) = await wait_for_interrupts(client, "s", 1)
        assert await client.resolve_interrupt("s", asked.interrupt_id, "reject", reason="no \ud83d")
        assert (await client.wait_for_idle("s")).last_turn_outcome == "completed"


class _PickyRunner(BuiltinLoopAgentRunner):
    """Refuses a text."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        if text == "bad":
            raise RuntimeError("not this text")
        return super().build_user_message(text)


async def test_a_text_that_the_runner_refuses_never_gets_into_a_session(tmp_path: Path) -> None:
    definition = AgentDefinition(name="desk", model=ScriptedModelClient(obedient))
    async with serve(tmp_path / "a.db", AgentSessionFlow(_PickyRunner(definition), "Desk")) as client:
        with pytest.raises(InvalidInputError, match="first_message: the runner refuses it: not this text"):
            await client.start_session("s", first_message="bad")
        await client.start_session("s")
        with pytest.raises(InvalidInputError, match="text: the runner refuses it: not this text"):
            await client.send_user_message("s", "bad")
        await ask(client, "s", "good")
