"""The Flows of the kill tests and a Worker process for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import dex

from dex_agents.testing import FileGate
from dex_agents.testing.processes import ChildProcess
from tests.integration.engine.room import AsyncStep, MemoryCache

ONCE = dex.RetryPolicy(maximum_attempts=1)
TWICE = dex.RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=2)
inbox = dex.Channel("inbox", int)
seen = dex.AttributeMap("seen", int)
tokens = dex.Stream("tokens", str, 1 << 20)


class Held(AsyncStep[str]):
    """Notes that it runs, then waits at the gate that its Flow ID names."""

    retry: dex.RetryPolicy | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.progress = dex.Stream("progress", str, 1 << 20)

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_retry=self.retry).on_execute_failure_proceed_to(Unknown)

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        await context.heartbeat(context.attempt)
        # Frames stay in order, so whoever reads this knows that the engine has the heartbeat.
        self.progress.write(context, f"attempt {context.attempt}")
        await FileGate(self._folder / context.flow_id).arrive()
        beat = context.get_last_heartbeat_value(int) if context.has_last_heartbeat_value() else 0
        return dex.graceful_complete(f"attempt {context.attempt}, last beat {beat}")


class HeldOnce(Held):
    retry = ONCE


class HeldTwice(Held):
    retry = TWICE


class Unknown(AsyncStep[str]):
    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        assert context.recovery_error is not None
        return dex.graceful_complete(f"unknown: {context.recovery_error.error_type}")


class HeldFlow(dex.Flow[str]):
    def __init__(self, step: Held) -> None:
        self._step = step
        self.progress = step.progress

    def get_flow_type(self) -> str:
        return f"{type(self._step).__name__}Flow"

    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(self._step).other_steps(Unknown())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(self.progress)


class Collect(AsyncStep[int]):
    """Adds what it hears to a map, one message a Step."""

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_load_attribute_maps=(seen,))

    def wait_for(self, context: dex.Context, input: int) -> dex.Wait:
        return dex.Wait.until(inbox.for_one())

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        (value,) = inbox.results(context)
        if value < 0:
            return dex.graceful_complete(len(seen.get_all_instance_keys(context)))
        tokens.write(context, str(value))
        seen.set(context, str(value), seen.get(context, str(value)) + 1)
        return dex.go_to(Collect, input + 1)


class Ledger(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Collect())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(inbox, seen, tokens)

    @dex.rpc
    def send(self, context: dex.Context, value: int) -> None:
        inbox.publish(context, value)

    @dex.rpc(load_attribute_maps=(seen,))
    def counts(self, context: dex.Context) -> dex.RPCResult[dict[str, int]]:
        return dex.RPCResult({key: seen.get(context, key) for key in seen.get_all_instance_keys(context)})


def build_flows(folder: Path) -> dict[str, dex.Flow[str] | dex.Flow[int]]:
    return {
        "held": HeldFlow(Held(folder)),
        "once": HeldFlow(HeldOnce(folder)),
        "twice": HeldFlow(HeldTwice(folder)),
        "ledger": Ledger(),
    }


class WorkerProcess(ChildProcess):
    """A Worker for all of these Flows."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__("the Worker", start_timeout=60)
        self._address = address
        self._folder = folder

    def _arguments(self) -> Sequence[str]:
        return ("-m", "tests.crash.engine.flows", self._address, str(self._folder))


async def work(address: str, folder: Path) -> None:
    registry = dex.Registry(list(build_flows(folder).values()), allow_async_handlers=True)
    options = dex.WorkerOptions(server_address=address, pull=dex.PullWorkerOptions(max_concurrent_tasks=8))
    worker = dex.AsyncWorker(registry, MemoryCache(), options)
    serving = asyncio.create_task(worker.start())
    await worker.wait_pull_registered(timeout=60)
    print("ready", flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
