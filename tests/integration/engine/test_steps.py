from __future__ import annotations

import asyncio
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room


class Count(AsyncStep[int]):
    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        if input > 1:
            return dex.go_to(Count, input - 1)
        return dex.graceful_complete(context.step_execution_id)


class CountFlow(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Count())


async def test_a_chain_of_steps_runs_each_once_and_in_order(tmp_path: Path) -> None:
    flow = CountFlow()
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "chain", 25)
        assert result.status is dex.FlowStatus.COMPLETED
        assert result.single_output(str) == "Count-25"


async def test_two_hundred_flows_started_at_once_all_complete(tmp_path: Path) -> None:
    flow = CountFlow()
    async with open_room(tmp_path, flow) as room:
        clients = [room.open_client() for _ in range(4)]
        ids = [f"flow-{number}" for number in range(200)]
        await asyncio.gather(
            *(clients[number % 4].start_flow(flow, flow_id, 2) for number, flow_id in enumerate(ids))
        )
        results = await asyncio.gather(*(room.client.wait_for_flow(flow_id, BOUND) for flow_id in ids))
        assert {result.single_output(str) for result in results} == {"Count-2"}
        for client in clients:
            await client.close()


class Fork(AsyncStep[int]):
    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        moves = [dex.StepMovement[int].of(Part, number) for number in range(input)]
        return dex.go_to_many(dex.StepMovement[int].of(Gather, input), *moves)


class Part(AsyncStep[int]):
    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        parts.publish(context, input)
        return dex.dead_end()


class Gather(AsyncStep[int]):
    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions()

    def wait_for(self, context: dex.Context, input: int) -> dex.Wait:
        return dex.Wait.until(parts.for_n(input))

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        return dex.graceful_complete(sum(parts.results(context)))


parts = dex.Channel("parts", int)


class ForkFlow(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Fork()).other_steps(Part(), Gather())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(parts)


async def test_parallel_steps_meet_at_a_channel(tmp_path: Path) -> None:
    flow = ForkFlow()
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "fork", 40)
        assert result.single_output(int) == sum(range(40))


class Split(AsyncStep[None]):
    async def execute(self, context: dex.AsyncContext, input: None) -> dex.StepDecision:
        return dex.go_to_many(
            dex.StepMovement[None].of(Endless, None), dex.StepMovement[None].of(Decide, None)
        )


class Endless(AsyncStep[None]):
    started: asyncio.Event
    cancelled: asyncio.Event

    async def execute(self, context: dex.AsyncContext, input: None) -> dex.StepDecision:
        Endless.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Endless.cancelled.set()
            raise
        return dex.dead_end()


class Decide(AsyncStep[None]):
    async def execute(self, context: dex.AsyncContext, input: None) -> dex.StepDecision:
        await Endless.started.wait()
        return dex.graceful_complete("decided").with_canceling_steps(Endless)


class SplitFlow(dex.Flow[None]):
    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].start_step(Split()).other_steps(Endless(), Decide())


async def test_a_cancelled_step_is_told_to_stop_and_does_not_hold_the_flow(tmp_path: Path) -> None:
    Endless.started, Endless.cancelled = asyncio.Event(), asyncio.Event()
    flow = SplitFlow()
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "split", None)
        assert result.single_output(str) == "decided"
        async with asyncio.timeout(BOUND.total_seconds()):
            await Endless.cancelled.wait()


@pytest.mark.parametrize("stop", [dex.StopType.CANCEL, dex.StopType.TERMINATE, dex.StopType.FAIL])
async def test_a_stopped_flow_ends_its_running_step(tmp_path: Path, stop: dex.StopType) -> None:
    Endless.started, Endless.cancelled = asyncio.Event(), asyncio.Event()

    class Alone(dex.Flow[None]):
        def get_steps(self) -> dex.StepList[None]:
            return dex.StepList[None].start_step(Endless())

    flow = Alone()
    async with open_room(tmp_path, flow) as room, asyncio.timeout(BOUND.total_seconds()):
        await room.client.start_flow(flow, "alone", None)
        await Endless.started.wait()
        await room.client.stop_flow("alone", dex.StopFlowOptions(type=stop, reason="enough"))
        await Endless.cancelled.wait()
        result = await room.client.wait_for_flow("alone", BOUND)
        assert result.status.name.startswith(stop.name)
        with pytest.raises(dex.FlowNotActiveOrNotFoundError):
            await room.client.stop_flow("alone", dex.StopFlowOptions())
