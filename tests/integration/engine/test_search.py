from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

status = dex.Attribute("status", str, index=dex.AttributeIndex(dex.IndexType.KEYWORD, "SessionStatus"))
go = dex.Channel("go", str)


class AwaitToolApproval(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        status.set(context, "waiting")
        return dex.Wait.any_of(go.for_one(), dex.Timer.by_duration(timedelta(hours=1)))

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        status.set(context, "approved")
        return dex.graceful_complete()


class Session(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(AwaitToolApproval())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(status, go)

    @dex.rpc
    def approve(self, context: dex.Context, by: str) -> None:
        go.publish(context, by)


flow = Session()


async def test_sessions_that_await_an_approval_are_found_until_it_comes(tmp_path: Path) -> None:
    query = "ActiveStepTypes = 'AwaitToolApproval' AND SessionStatus = 'waiting'"
    wait = dex.WaitForAttributeOptions(request_timeout=BOUND)
    async with open_room(tmp_path, flow) as room:
        for number in range(5):
            await room.client.start_flow(flow, f"s{number}", "x")
            await room.client.wait_for_attribute_match(
                f"s{number}", status, dex.AttributeMatch[str].equal_to("waiting"), wait
            )
        found = await room.client.search_flows(query, 10)
        assert [each.flow_id for each in found.flows] == ["s4", "s3", "s2", "s1", "s0"]
        await room.client.invoke_rpc(flow.approve, "s2", "ann")
        await room.client.wait_for_flow("s2", BOUND)
        found = await room.client.search_flows(query, 10)
        assert [each.flow_id for each in found.flows] == ["s4", "s3", "s1", "s0"]
        closed = await room.client.search_flows("ExecutionStatus = 'Completed'", 10)
        assert [(each.flow_id, each.status) for each in closed.flows] == [("s2", dex.FlowStatus.COMPLETED)]


async def test_a_search_sees_everything_committed_before_it(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        for number in range(20):
            await room.client.start_flow(flow, f"s{number}", "x")
            assert len((await room.client.search_flows(f"FlowId = 's{number}'", 10)).flows) == 1


async def test_pages_follow_each_other_without_gaps_or_repeats(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        for number in range(25):
            await room.client.start_flow(flow, f"s{number}", "x")
        found: list[str] = []
        page = await room.client.search_flows("FlowType = 'Session'", 10)
        while True:
            found += [each.flow_id for each in page.flows]
            if not page.next_page_token:
                break
            page = await room.client.search_flows("FlowType = 'Session'", 10, page.next_page_token)
        assert found == [f"s{number}" for number in reversed(range(25))]
        token = (await room.client.search_flows("FlowType = 'Session'", 10)).next_page_token
        with pytest.raises(dex.DexServiceError, match="belongs to another query"):
            await room.client.search_flows("FlowType = 'Other'", 10, token)


async def test_the_search_mode_of_a_running_flow_can_be_changed(tmp_path: Path) -> None:
    query = "ActiveStepTypes = 'AwaitToolApproval'"
    async with open_room(tmp_path, flow, workers=0) as room:
        await room.client.start_flow(flow, "s", "x")
        assert len((await room.client.search_flows(query, 10)).flows) == 1
        config = dex.FlowConfig(active_step_search_mode=dex.ActiveStepSearchMode.DISABLED)
        await room.client.update_flow_config("s", config)
        assert len((await room.client.search_flows(query, 10)).flows) == 0
