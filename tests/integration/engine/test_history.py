"""What happened to a run, as tools read it: events with dense numbers, and the state at one moment."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import dex
import grpc
import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine import check_database
from tests.integration.engine.room import BOUND, AsyncStep, Room, open_room

inbox = dex.Channel("inbox", str)
document = dex.Attribute("document", str)
token = dex.Attribute("token", str, hard_delete_on_null=True)
WAIT = dex.WaitForStepCompletionOptions(request_timeout=BOUND)
SECRET = "sk-never-in-history"
LARGE = "x" * 40_000


class Listen(AsyncStep[str]):
    """Takes messages into a document; `fail` fails, `end` ends."""

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(
            execute_retry=dex.RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=2)
        )

    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.any_of(inbox.for_one(), dex.Timer.by_duration(timedelta(hours=1)))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        texts = inbox.results(context)
        if not texts:
            return dex.graceful_complete("late")
        (text,) = texts
        if text == "fail" or (text == "stumble" and context.attempt == 1):
            raise RuntimeError(f"cannot {text}")
        document.set(context, text)
        return dex.graceful_complete("done") if text == "end" else dex.go_to(Listen, text)


class Conversation(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Listen())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(inbox, document, token)

    @dex.rpc
    def say(self, context: dex.Context, text: str) -> dex.RPCResult[str]:
        inbox.publish(context, text)
        return dex.RPCResult(f"heard {text}")

    @dex.rpc
    def keep(self, context: dex.Context, text: str) -> None:
        token.set(context, text)


flow = Conversation()


async def hear(room: Room, text: str, number: int) -> None:
    """Say something once the Step with a number listens, and wait until it has ended."""
    async with room.raw_stub() as stub:
        await wait_until_waiting(stub)
    await room.call(flow.say, "f", text)
    await room.client.wait_for_step_completion("f", dex.StepExecutionId("Listen", number), WAIT)


async def read(stub: Any, **request: Any) -> list[Any]:
    """Return all events of the Flow, page by page."""
    events: list[Any] = []
    asked = pb.GetHistoryEventsRequest(flow_id="f", **request)
    while True:
        page = await stub.GetHistoryEvents(asked)
        events += page.events
        assert page.next_internal_event_id == (events[-1].event_id + 1 if events else 1)
        if not page.next_page_token:
            return events
        asked.start_internal_event_id = page.next_internal_event_id
        asked.next_page_token = page.next_page_token


def kinds(events: list[Any]) -> list[str]:
    return [event.WhichOneof("payload") for event in events]


@pytest.mark.requirement("engine-history")
async def test_history_tells_what_happened_to_a_run(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        run_id = await room.client.start_flow(flow, "f", "begin")
        await hear(room, "hello", 1)
        await hear(room, "end", 2)
        await room.client.wait_for_flow("f", BOUND)
        events = await read(stub)
    assert kinds(events) == [
        "flow_started_or_continued",
        "step_wait_for_completed",
        "rpc_execution_completed",
        "step_execute_completed",
        "step_wait_for_completed",
        "rpc_execution_completed",
        "step_execute_completed",
        "flow_closed",
    ]
    assert [event.event_id for event in events] == list(range(1, 9))
    times = [event.event_time.ToNanoseconds() for event in events]
    assert times == sorted(times)
    assert {event.run_attempt for event in events} == {1}
    started = events[0].flow_started_or_continued
    assert (started.flow_execution_id.flow_id, started.flow_execution_id.run_id) == ("f", run_id)
    assert started.flow_type == "Conversation"
    assert started.initial_start.start_step_type == "Listen"
    assert started.initial_start.step_input.string_value == "begin"
    waited = events[1].step_wait_for_completed
    assert waited.context.step_execution_id == "Listen-1"
    assert waited.context.from_step_execution_id == "__start__"
    assert waited.context.final_attempt == 1
    assert waited.input.step_input == started.initial_start.step_input
    assert [each.channel_name for each in waited.output.wait_for_condition.channel_conditions] == ["inbox"]
    called = events[2].rpc_execution_completed
    assert called.rpc_name == "say"
    assert called.input.string_value == "hello"
    assert called.output.string_value == "heard hello"
    assert [each.channel_name for each in called.publish_to_channel] == ["inbox"]
    executed = events[3].step_execute_completed
    (heard,) = executed.input.condition_results.channel_results
    assert list(heard.values) == [called.publish_to_channel[0].value]
    (timer,) = executed.input.condition_results.timer_results
    assert timer.condition_status == pb.CONDITION_STATUS_WAITING
    assert [each.key for each in executed.output.upsert_attributes] == ["document"]
    (following,) = executed.output.step_decision.next_steps
    assert (following.step_type, following.step_input.string_value) == ("Listen", "hello")
    assert events[4].step_wait_for_completed.context.from_step_execution_id == "Listen-1"
    close = events[6].step_execute_completed.output.step_decision.close_decision
    assert close.close_decision_type == pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE
    closed = events[7].flow_closed
    assert closed.flow_status == pb.FLOW_STATUS_COMPLETED
    assert [each.completed_step_execution_id for each in closed.results] == ["Listen-2"]
    assert closed.results[0].completed_step_output == close.close_input


@pytest.mark.requirement("engine-history")
async def test_a_failure_is_told_with_its_attempts(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, "stumble", 1)
        await wait_until_waiting(stub)
        await room.call(flow.say, "f", "fail")
        await room.client.wait_for_flow("f", BOUND)
        events = await read(stub)
    stumbled = events[3].step_execute_completed.context
    assert (stumbled.final_attempt, stumbled.last_failure_info.attempt) == (2, 1)
    assert stumbled.last_failure_info.details.original_worker_error_type == "builtins.RuntimeError"
    assert kinds(events)[-2:] == ["step_execute_failed", "flow_closed"]
    failed = events[-2].step_execute_failed
    assert (failed.context.final_attempt, failed.output.failure.attempt) == (2, 2)
    assert "cannot fail" in failed.output.failure.details.original_worker_error_detail
    assert failed.context.last_failure_info.attempt == 1
    assert failed.context.method_options.retry_policy.maximum_attempts == 2
    assert events[-1].flow_closed.error_type == pb.FLOW_ERROR_TYPE_WORKER_API_FAIL


async def test_a_wait_that_a_timer_ends_is_told_with_the_method_that_follows(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await wait_until_waiting(stub)
        await room.client.skip_timer("f", dex.StepExecutionId("Listen", 1), dex.TimerId(condition_index=0))
        await room.client.wait_for_flow("f", BOUND)
        events = await read(stub)
    assert kinds(events) == [
        "flow_started_or_continued",
        "step_wait_for_completed",
        "step_execute_completed",
        "flow_closed",
    ]
    (timer,) = events[2].step_execute_completed.input.condition_results.timer_results
    assert timer.condition_status == pb.CONDITION_STATUS_COMPLETED


async def test_what_clients_do_without_a_worker_is_told_too(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        write = pb.AttributeWrite(key="document", value=pb.Value(string_value="from outside"))
        await stub.SetAttributes(pb.SetAttributesRequest(flow_id="f", attributes=[write]))
        message = pb.ChannelMessage(channel_name="inbox", value=pb.Value(string_value="hello"))
        await stub.PublishToChannel(pb.PublishToChannelRequest(flow_id="f", messages=[message]))
        listed = await stub.GetChannelMessages(
            pb.GetChannelMessagesRequest(flow_id="f", channel_name="inbox")
        )
        message_id = listed.messages[0].message_id
        await stub.DeleteChannelMessage(
            pb.DeleteChannelMessageRequest(flow_id="f", channel_name="inbox", message_id=message_id)
        )
        await room.client.stop_flow("f")
        events = await read(stub)
    assert kinds(events)[1:] == [
        "rpc_execution_completed",
        "channel_external_publish",
        "channel_external_delete",
        "step_wait_for_pending",
        "flow_closed",
    ]
    written = events[1].rpc_execution_completed
    assert (written.rpc_name, written.is_set_attribute_api) == ("", True)
    assert list(written.upsert_attributes) == [write]
    assert events[2].channel_external_publish.messages[0].message_id == message_id
    assert events[3].channel_external_delete.messages[0].message_id == message_id
    pending = events[4].step_wait_for_pending
    assert (pending.context.step_execution_id, pending.phase) == (
        "Listen-1",
        pb.PENDING_STEP_METHOD_PHASE_SCHEDULED,
    )
    assert events[5].flow_closed.flow_status == pb.FLOW_STATUS_CANCELED


@pytest.mark.requirement("engine-history-secrets")
async def test_a_hard_delete_value_never_enters_history(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        options = dex.StartFlowOptions().with_attribute(token, SECRET)
        await room.client.start_flow(flow, "f", "begin", options)
        await hear(room, "hello", 1)
        await wait_until_waiting(stub)
        unfolded = await read(stub)
        await room.client.search_flows("", 1)
        folded = await read(stub)
        assert unfolded == folded
        (write,) = unfolded[0].flow_started_or_continued.initial_start.initial_attributes
        assert (write.key, write.value.WhichOneof("kind")) == ("token", None)
        assert SECRET not in str(folded)
        with contextlib.closing(sqlite3.connect(room.database)) as connection:
            kept = connection.execute(
                "SELECT operations FROM journal UNION ALL"
                " SELECT operations FROM history WHERE operations NOT NULL"
            ).fetchall()
        assert kept
        assert all(SECRET.encode() not in operations for (operations,) in kept)


@pytest.mark.requirement("engine-history")
async def test_a_large_value_stays_a_blob(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, LARGE, 1)
        events = await read(stub)
        called, executed = events[2].rpc_execution_completed, events[3].step_execute_completed
        # Nothing but history would hold the input of the call, which is therefore left out.
        assert not called.HasField("input")
        value = executed.output.upsert_attributes[0].value
        blob_id = value.internal_blob_id_for_string_value
        request = pb.LoadBlobsRequest()
        request.entries.add(flow_id="f").blob_value.CopyFrom(value)
        loaded = (await stub.LoadBlobs(request)).values[blob_id]
    assert blob_id
    assert loaded.string_value == LARGE


@pytest.mark.requirement("engine-history-bounds")
async def test_only_the_last_events_are_kept_and_their_numbers_stay(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, history_events=4) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        for number in range(1, 6):
            await hear(room, "hello", number)
        await wait_until_waiting(stub)
        await room.client.search_flows("", 1)
        kept = await read(stub)
        assert [event.event_id for event in kept] == [14, 15, 16, 17]
        # A position that is gone stands for the next one that is kept.
        assert await read(stub, start_internal_event_id=3) == kept
        assert kept[0].step_wait_for_completed.input.unavailable
        await room.restart()
        assert [event.event_id for event in await read(stub)] == [14, 15, 16, 17]
        await room.call(flow.say, "f", "end")
        await room.client.wait_for_flow("f", BOUND)
        await room.client.search_flows("", 1)
        assert [event.event_id for event in await read(stub)] == [17, 18, 19, 20]
        with contextlib.closing(sqlite3.connect(room.database)) as connection:
            for table in ("history", "journal"):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] <= 4


@pytest.mark.requirement("engine-history-bounds")
async def test_an_engine_that_keeps_no_events_answers_with_none(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, history_events=0) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, "end", 1)
        assert await read(stub) == []
        waited = await stub.WaitForHistoryEvent(
            pb.WaitForHistoryEventRequest(flow_id="f", next_internal_event_id=1)
        )
        assert (waited.event_available, waited.flow_status) == (False, pb.FLOW_STATUS_COMPLETED)
    with contextlib.closing(sqlite3.connect(room.database)) as connection:
        for table in ("history", "journal"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.requirement("engine-history")
async def test_history_is_read_page_by_page(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, "hello", 1)
        await room.client.search_flows("", 1)
        await hear(room, "end", 2)
        await room.client.wait_for_flow("f", BOUND)
        whole = await read(stub)
        assert await read(stub, estimate_page_size=1) == whole
        assert await read(stub, estimate_page_size=3) == whole
        assert await read(stub, start_internal_event_id=5) == whole[4:]
        beyond = await stub.GetHistoryEvents(
            pb.GetHistoryEventsRequest(flow_id="f", start_internal_event_id=99)
        )
        assert (list(beyond.events), beyond.next_internal_event_id, beyond.next_page_token) == ([], 99, b"")


async def test_a_page_is_never_larger_than_a_client_can_receive(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        await room.client.start_flow(flow, "f", "begin")
        text = pb.Value(string_value="y" * 30_000)
        message = pb.ChannelMessage(channel_name="inbox", value=text)
        # The SDK's own channel keeps gRPC's limit of 4 MiB.
        async with grpc.aio.insecure_channel(room.address) as channel:
            stub: Any = dex_stub(channel)
            for _ in range(3):
                await stub.PublishToChannel(pb.PublishToChannelRequest(flow_id="f", messages=[message] * 100))
            await stub.PublishToChannel(pb.PublishToChannelRequest(flow_id="f", messages=[message] * 200))
            events = await read(stub)
            state = await stub.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
    sizes = [len(event.channel_external_publish.messages) for event in events[1:]]
    assert sizes == [100, 100, 100, 200]
    assert len(state.pending_channel_messages["inbox"].messages) == 500


def dex_stub(channel: grpc.aio.Channel) -> Any:
    from dex.dexpb import dex_pb2_grpc

    return dex_pb2_grpc.FlowServiceStub(channel)


@pytest.mark.requirement("engine-history-wait")
async def test_whoever_waits_for_an_event_is_woken_by_it(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await wait_until_waiting(stub)
        waiting = asyncio.ensure_future(
            stub.WaitForHistoryEvent(pb.WaitForHistoryEventRequest(flow_id="f", next_internal_event_id=3))
        )
        await room.call(flow.say, "f", "hello")
        async with asyncio.timeout(BOUND.total_seconds()):
            woken = await waiting
        assert (woken.event_available, woken.available_internal_event_id) == (True, 3)
        assert woken.flow_status == pb.FLOW_STATUS_RUNNING
        # Whoever is woken can read what woke it.
        assert (await read(stub))[2].rpc_execution_completed.rpc_name == "say"
        await room.client.stop_flow("f")
        over = await stub.WaitForHistoryEvent(
            pb.WaitForHistoryEventRequest(flow_id="f", next_internal_event_id=99)
        )
        assert (over.event_available, over.flow_status) == (False, pb.FLOW_STATUS_CANCELED)


@pytest.mark.requirement("engine-history-wait")
@pytest.mark.parametrize("method", ["GetHistoryEvents", "WaitForHistoryEvent", "GetFlowState"])
async def test_a_flow_that_does_not_exist_has_no_history(tmp_path: Path, method: str) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        request = getattr(pb, f"{method}Request")(flow_id="nobody")
        if method == "WaitForHistoryEvent":
            request.next_internal_event_id = 1
        with pytest.raises(grpc.aio.AioRpcError, match="does not exist") as caught:
            await getattr(stub, method)(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.requirement("engine-history")
async def test_history_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, runs_in_memory=0) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, "hello", 1)
        await wait_until_waiting(stub)
        before = await read(stub)
        await room.restart()
        assert await read(stub) == before
        await room.call(flow.say, "f", "end")
        await room.client.wait_for_flow("f", BOUND)
        after = await read(stub)
    assert after[: len(before)] == before
    assert [event.event_id for event in after] == list(range(1, len(after) + 1))


@pytest.mark.requirement("engine-history-wait")
async def test_the_state_of_a_flow_shows_what_it_waits_for_and_holds(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await hear(room, "hello", 1)
        await room.call(flow.keep, "f", SECRET)
        message = pb.ChannelMessage(channel_name="other", value=pb.Value(string_value="unread"))
        await stub.PublishToChannel(pb.PublishToChannelRequest(flow_id="f", messages=[message]))
        state = await wait_until_waiting(stub)
    (execution,) = state.active_step_executions
    assert (execution.step_execution_id, execution.from_step_execution_id) == ("Listen-2", "Listen-1")
    assert execution.phase == pb.ACTIVE_STEP_PHASE_WAITING
    assert execution.movement.step_input.string_value == "hello"
    assert [each.channel_name for each in execution.waiting_condition.channel_conditions] == ["inbox"]
    (timer,) = execution.timers
    assert timer.status == pb.INTERNAL_TIMER_STATUS_PENDING
    assert {each.key for each in state.attributes} == {"document", "token"}
    assert [each.value.string_value for each in state.pending_channel_messages["other"].messages] == [
        "unread"
    ]
    assert state.sticky_app_worker_id


async def wait_until_waiting(stub: Any) -> Any:
    """Wait until the only execution waits, by the events that lead there; return the state."""
    position = 1
    async with asyncio.timeout(BOUND.total_seconds()):
        while True:
            page = await stub.GetHistoryEvents(
                pb.GetHistoryEventsRequest(flow_id="f", start_internal_event_id=position)
            )
            position = page.next_internal_event_id
            state = await stub.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
            phases = [each.phase for each in state.active_step_executions]
            if phases == [pb.ACTIVE_STEP_PHASE_WAITING]:
                return state
            await stub.WaitForHistoryEvent(
                pb.WaitForHistoryEventRequest(flow_id="f", next_internal_event_id=position)
            )


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE journal SET operations = x'c1'", "run 1: an event cannot be read"),
        ("DELETE FROM history WHERE event = 2", "run 1: the event 2 is missing"),
        ("UPDATE step_failure SET failure = x'ff'", "run 1 cannot be read"),
    ],
)
async def test_a_check_reads_history(tmp_path: Path, damage: str, problem: str) -> None:
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "f", "begin")
        await wait_until_waiting(stub)
        await room.call(flow.say, "f", "stumble")
    with contextlib.closing(sqlite3.connect(room.database, isolation_level=None)) as connection:
        connection.execute("INSERT OR IGNORE INTO step_failure SELECT run, number, x'' FROM step LIMIT 1")
        assert check_database(room.database).problems == ()
        connection.execute(damage)
    problems = check_database(room.database).problems
    assert problems
    assert all(problem in each for each in problems), problems
