"""The turn of the benches as a bare Flow of the SDK, as a `TurnPeer`: no session here can be faster.

The same Steps as a session's, with a tool call each and a join, and nothing in them: no transcript, no effect
rules, no events, no model items. What it costs is the SDK, gRPC and the engine.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import dex

from benches.end_to_end.bench_engine import MemoryCache
from benches.end_to_end.turns import open_engine
from benches.end_to_end.turns_driver import TurnPeer, add_plan_arguments, read_cpu_seconds, run_plan
from benches.workloads.turns import ANSWER, TOOLS, StoredMessage

_WORKER_TASKS: Final = 32
_IDLE_STREAMS: Final = 16
"""Both as `AgentWorker` has them."""

_TURN_SECONDS: Final = timedelta(seconds=60)

_TEXTS: Final = dex.AttributeMap("texts", str)
_ANSWERED: Final = dex.Attribute("answered", int)
_DONE: Final = dex.ChannelMap("done", int)


class Think(dex.Step[int]):
    """Asks for the tools."""

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        _TEXTS.set(context, _key(input, 1), "")
        runs = (dex.StepMovement(RunTool, input * len(TOOLS) + place) for place in range(len(TOOLS)))
        return dex.go_to_many(*runs, dex.StepMovement(Join, input))


class RunTool(dex.Step[int]):
    """Runs one of them."""

    runs = 0

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        turn, place = divmod(input, len(TOOLS))
        RunTool.runs += 1
        _TEXTS.set(context, _key(turn, 2 + place), TOOLS[place].output)
        _DONE.publish(context, str(turn), place)
        return dex.dead_end()


class Join(dex.Step[int]):
    """Waits for both."""

    def wait_for(self, context: dex.Context, input: int) -> dex.Wait:
        """Wait for their reports."""
        return dex.Wait.until(_DONE.for_n(str(input), len(TOOLS)))

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        return dex.go_to(Answer, input)


class Answer(dex.Step[int]):
    """Ends the turn."""

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        _TEXTS.set(context, _key(input, 2 + len(TOOLS)), ANSWER)
        _ANSWERED.set(context, input)
        return dex.dead_end()


class BareTurns(dex.Flow[None]):
    """A Flow that takes questions."""

    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].empty().other_steps(Think(), RunTool(), Join(), Answer())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(_TEXTS, _ANSWERED, _DONE)

    @dex.rpc
    def ask(self, context: dex.Context, question: str) -> dex.RPCResult[int]:
        """Begin a turn and return its number, from 1."""
        turn = (_ANSWERED.get(context) or 0) + 1
        _TEXTS.set(context, _key(turn, 0), question)
        return dex.RPCResult(turn, next_steps=(dex.StepMovement(Think, turn),))

    @dex.rpc(load_attribute_maps=(_TEXTS,))
    def read(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        """Return every text in order."""
        return dex.RPCResult(
            [_TEXTS.get(context, key) for key in sorted(_TEXTS.get_all_instance_keys(context))]
        )


class BarePeer:
    """A client of the Flow; its Worker runs beside it."""

    def __init__(self, client: dex.AsyncClient, flow: BareTurns, engine_pid: int | None) -> None:
        """Wrap what `open_peer` opened."""
        self._client = client
        self._flow = flow
        self._engine_pid = engine_pid
        self._runs_before = RunTool.runs

    async def count_tool_runs(self) -> int:
        """The tools run in this process."""
        return RunTool.runs - self._runs_before

    async def start_session(self, session_id: str) -> None:
        """Start the Flow, which waits for questions."""
        await self._client.start_flow(self._flow, session_id, None)

    async def run_turn(self, session_id: str, question: str) -> None:
        """Ask, and wait for the Attribute that the last Step sets."""
        turn = await self._client.invoke_rpc(self._flow.ask, session_id, question)
        answered = dex.AttributeMatch[int].equal_to(turn)
        bound = dex.WaitForAttributeOptions(request_timeout=_TURN_SECONDS)
        await self._client.wait_for_attribute_match(session_id, _ANSWERED, answered, bound)

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read the texts."""
        texts = await self._client.invoke_rpc(self._flow.read, session_id)
        roles = ("user", "assistant", *("tool" for _ in TOOLS), "assistant")
        return [StoredMessage(roles[place % len(roles)], text) for place, text in enumerate(texts)]

    def read_cpu_seconds(self) -> float | None:
        """Add the engine's process to this one."""
        return read_cpu_seconds(*(() if self._engine_pid is None else (self._engine_pid,)))


@asynccontextmanager
async def open_peer(folder: Path) -> AsyncIterator[TurnPeer]:
    """Open engine, Worker and client on the store in a folder."""
    async with open_engine("process", "full", folder) as (address, engine_pid):
        flow = BareTurns()
        registry = dex.Registry([flow], allow_async_handlers=True)
        options = dex.ClientOptions(server_address=address, worker_target=dex.WorkerTarget(pull=True))
        client = dex.AsyncClient(registry, MemoryCache(), options)
        pull = dex.PullWorkerOptions(max_concurrent_tasks=_WORKER_TASKS, idle_streams_per_queue=_IDLE_STREAMS)
        worker = dex.AsyncWorker(
            registry, MemoryCache(), dex.WorkerOptions(server_address=address, pull=pull)
        )
        serving = asyncio.create_task(worker.start())
        try:
            await worker.wait_pull_registered(timeout=_TURN_SECONDS.total_seconds())
            yield BarePeer(client, flow, engine_pid)
        finally:
            await worker.close()
            await serving
            await client.close()


def _key(turn: int, place: int) -> str:
    return f"{turn:06d}.{place}"


def main() -> None:
    """Run one plan; see `benches.end_to_end.turns_driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan_arguments(parser)
    arguments = parser.parse_args()
    run_plan(open_peer, arguments)


if __name__ == "__main__":
    main()
