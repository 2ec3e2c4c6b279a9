"""The Flow retry policy: a run that fails is followed by another one of the same start."""

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
from tests.integration.engine.room import BOUND, AsyncStep, open_room

document = dex.Attribute("document", str)
drafts = dex.AttributeMap("drafts", str)
token = dex.Attribute("token", str, hard_delete_on_null=True)
inbox = dex.Channel("inbox", str)
ONCE = dex.RetryPolicy(maximum_attempts=1)
SECOND = timedelta(seconds=1)
REUSE = dex.IdReusePolicy.ALLOW_IF_NOT_RUNNING
LARGE = "x" * 40_000


class Try(AsyncStep[str]):
    """Fails until a run of the Flow is the one that is to succeed."""

    def __init__(self, succeeds: int) -> None:
        self.succeeds = succeeds
        self.seen: list[tuple[str, str, str, list[str]]] = []

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_retry=ONCE, execute_load_attribute_maps=(drafts,))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        kept = drafts.get_all_instance_keys(context)
        self.seen.append((input, document.get(context), token.get(context), list(kept)))
        document.set(context, "changed")
        drafts.set(context, "left", "over")
        if len(self.seen) < self.succeeds:
            raise RuntimeError(f"run {len(self.seen)} fails")
        return dex.graceful_complete(f"run {len(self.seen)}")


class Forget(AsyncStep[str]):
    """Forgets the token, so that no later run has it."""

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        token.delete(context)
        return dex.go_to(Try, input)


class Order(dex.Flow[str]):
    def __init__(self, succeeds: int, *, forgets: bool = False) -> None:
        self.step = Try(succeeds)
        self.forgets = forgets

    def get_steps(self) -> dex.StepList[str]:
        if self.forgets:
            return dex.StepList[str].start_step(Forget()).other_steps(self.step)
        return dex.StepList[str].start_step(self.step)

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(document, drafts, token, inbox)

    @dex.rpc
    def read(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(document.get(context))


def retried(attempts: int, interval: timedelta = SECOND, **options: Any) -> dex.StartFlowOptions:
    policy = dex.RetryPolicy(initial_interval=interval, backoff_coefficient=1.0, maximum_attempts=attempts)
    return dex.StartFlowOptions(retry_policy=policy, **options).with_attribute(document, "original")


async def summarise(stub: Any, run_id: str = "") -> Any:
    return await stub.GetFlowSummary(pb.GetFlowSummaryRequest(flow_id="f", run_id=run_id))


@pytest.mark.requirement("engine-flow-retry")
async def test_a_flow_that_fails_runs_again_from_its_start(tmp_path: Path) -> None:
    flow = Order(succeeds=3)
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        options = retried(3).with_attribute(token, "secret")
        first_run = await room.client.start_flow(flow, "f", LARGE, options)
        # Whoever waits for the Flow waits for the run that ends it.
        result = await room.client.wait_for_flow("f", BOUND)
        assert result.single_output(str) == "run 3"
        last, first = await summarise(stub), await summarise(stub, first_run)
        assert (first.flow_status, first.run_attempt) == (pb.FLOW_STATUS_FAILED, 1)
        assert (last.flow_status, last.run_attempt) == (pb.FLOW_STATUS_COMPLETED, 3)
        assert first.first_run_id == last.first_run_id == first_run
        assert last.flow_execution_id.run_id != first_run
        history = await stub.GetHistoryEvents(pb.GetHistoryEventsRequest(flow_id="f", run_id=first_run))
        follower = history.events[-1].flow_closed.continued_to_run_id
        second = await summarise(stub, follower)
        assert second.run_attempt == 2
        history = await stub.GetHistoryEvents(pb.GetHistoryEventsRequest(flow_id="f"))
        assert {event.run_attempt for event in history.events} == {3}
        assert history.events[-1].flow_closed.continued_to_run_id == ""
        # A delay of one second between the end of a run and the first Step of the next.
        assert second.start_time.ToNanoseconds() == first.close_time.ToNanoseconds()
        assert second.close_time.ToNanoseconds() - second.start_time.ToNanoseconds() >= 10**9
    assert flow.step.seen == [(LARGE, "original", "secret", [])] * 3
    assert check_database(room.database).problems == ()
    with contextlib.closing(sqlite3.connect(room.database)) as connection:
        assert connection.execute("SELECT count(*) FROM run_chain WHERE request NOT NULL").fetchone() == (0,)


@pytest.mark.requirement("engine-flow-retry")
async def test_a_flow_fails_for_good_with_its_last_attempt(tmp_path: Path) -> None:
    flow = Order(succeeds=9)
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        result = await room.run(flow, "f", "in", retried(2))
        assert result.status is dex.FlowStatus.FAILED
        assert (await summarise(stub)).run_attempt == 2
        # Closed for good, so its ID is free.
        await room.client.start_flow(flow, "f", "in", dex.StartFlowOptions(id_reuse_policy=REUSE))
    assert len(flow.step.seen) >= 2


@pytest.mark.requirement("engine-flow-retry")
async def test_a_retried_flow_survives_a_restart_between_two_runs(tmp_path: Path) -> None:
    flow = Order(succeeds=2)
    async with open_room(tmp_path, flow, runs_in_memory=0) as room, room.raw_stub() as stub:
        first_run = await room.client.start_flow(flow, "f", LARGE, retried(2))
        await wait_for_attempt(stub, 2, first_run)
        await room.restart()
        result = await room.client.wait_for_flow("f", BOUND)
        assert result.single_output(str) == "run 2"
        assert (await summarise(stub)).first_run_id == first_run
    assert [seen[0] for seen in flow.step.seen] == [LARGE, LARGE]


@pytest.mark.requirement("engine-flow-retry")
async def test_a_flow_that_a_client_fails_or_cancels_is_not_run_again(tmp_path: Path) -> None:
    flow = Order(succeeds=1)
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        for stop_type in (pb.STOP_TYPE_FAIL, pb.STOP_TYPE_CANCEL):
            await room.client.start_flow(flow, "f", "in", retried(5, id_reuse_policy=REUSE))
            await stub.StopFlow(pb.StopFlowRequest(flow_id="f", stop_type=stop_type, reason="enough"))
            assert (await summarise(stub)).run_attempt == 1
            assert (await summarise(stub)).flow_status != pb.FLOW_STATUS_RUNNING


@pytest.mark.requirement("engine-flow-retry")
async def test_a_flow_can_be_stopped_while_it_waits_for_its_next_run(tmp_path: Path) -> None:
    flow = Order(succeeds=2)
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        first_run = await room.client.start_flow(flow, "f", "in", retried(2, timedelta(hours=1)))
        await wait_for_attempt(stub, 2, first_run)
        # It is open meanwhile: an RPC finds the next run, with what that starts from.
        assert await room.call(flow.read, "f") == "original"
        await room.client.stop_flow("f")
        assert (await room.client.wait_for_flow("f", BOUND)).status is dex.FlowStatus.CANCELED
    assert len(flow.step.seen) == 1


@pytest.mark.requirement("engine-history-secrets")
async def test_a_hard_delete_value_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    flow = Order(succeeds=2, forgets=True)
    async with open_room(tmp_path, flow) as room:
        await room.run(flow, "f", "in", retried(2).with_attribute(token, "sk-once"))
    assert [seen[2] for seen in flow.step.seen] == [None, None]
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"sk-once" not in content


async def test_a_timeout_is_a_failure_that_is_retried(tmp_path: Path) -> None:
    flow = Order(succeeds=1)
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        first_run = await room.client.start_flow(flow, "f", "in", retried(2, timeout=SECOND))
        await wait_for_attempt(stub, 2, first_run)
        assert (await summarise(stub, first_run)).flow_status == pb.FLOW_STATUS_FAILED
        assert (await room.client.wait_for_flow("f", BOUND)).error_type is dex.FlowErrorType.FLOW_TIMEOUT
        assert (await summarise(stub)).run_attempt == 2


async def test_a_run_that_its_caller_names_is_the_only_one_waited_for(tmp_path: Path) -> None:
    flow = Order(succeeds=2)
    async with open_room(tmp_path, flow) as room, room.raw_stub() as stub:
        first_run = await room.client.start_flow(flow, "f", "in", retried(2, timedelta(hours=1)))
        named = await stub.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", run_id=first_run))
        assert named.flow_status == pb.FLOW_STATUS_FAILED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", wait_time_seconds=1))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (pb.FlowRetryPolicy(maximum_attempts=-1), "retry_policy.maximum_attempts: must not be negative"),
        (pb.FlowRetryPolicy(backoff_coefficient=0.5), "retry_policy.backoff_coefficient"),
    ],
)
async def test_a_policy_that_cannot_be_followed_is_refused(
    tmp_path: Path, policy: pb.FlowRetryPolicy, problem: str
) -> None:
    async with open_room(tmp_path, Order(1), workers=0) as room, room.raw_stub() as stub:
        request = pb.StartFlowRequest(flow_id="f", flow_type="Order")
        request.flow_start_options.retry_policy.CopyFrom(policy)
        with pytest.raises(grpc.aio.AioRpcError, match=problem) as caught:
            await stub.StartFlow(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def wait_for_attempt(stub: Any, attempt: int, first_run: str) -> None:
    """Wait until a run is closed that another follows, and see that it is the one with a number."""
    async with asyncio.timeout(BOUND.total_seconds()):
        await stub.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", run_id=first_run))
    assert (await summarise(stub)).run_attempt == attempt
