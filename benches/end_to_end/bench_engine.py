"""What a Step and an RPC cost on the local engine, through the unmodified SDK.

    python benches/end_to_end/bench_engine.py [--rounds N] [--steps N] [--flows N]

For each durability and place of the engine it prints milliseconds a Step in one chain of Steps, Steps a
second over many chains, and the time of a read-only RPC. Two floors of the same run stand beside them: a bare
gRPC call that does nothing, and one synced commit of one small row. Rounds are rotated and the median is
shown with the range; the Steps are checked to have run exactly once before anything is timed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import dex
import grpc

from dex_agents.engine import LocalEngine

WORKER_TASKS = 8
BOUND = timedelta(seconds=59)


class Count(dex.Step[int]):
    """Runs itself again until the count is down."""

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        return dex.go_to(Count, input - 1) if input > 1 else dex.graceful_complete(context.step_execution_id)


class CountFlow(dex.Flow[int]):
    """A chain of Steps."""

    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList.start_step(Count())

    @dex.rpc
    def echo(self, context: dex.Context, text: str) -> dex.RPCResult[str]:
        return dex.RPCResult(text)


class MemoryCache:
    """A blob cache in memory."""

    def __init__(self) -> None:
        self.config = dex.BlobCacheConfig("unused", 1)
        self._payloads: dict[str, bytes] = {}

    def get(self, blob_id: str) -> bytes | None:
        return self._payloads.get(blob_id)

    def put(self, blob_id: str, payload: bytes) -> bool:
        self._payloads[blob_id] = payload
        return True

    def delete(self, blob_id: str) -> None:
        self._payloads.pop(blob_id, None)

    def delete_all(self) -> None:
        self._payloads.clear()

    def close(self) -> None:
        self._payloads.clear()


@contextlib.asynccontextmanager
async def run_engine(place: str, synchronous: str, folder: Path) -> AsyncIterator[str]:
    """Run an engine in this process or in one of its own and yield its address."""
    database, listen = folder / "engine.db", f"unix:{folder}/engine.sock"
    if place == "thread":
        mode = "full" if synchronous == "full" else "normal"
        async with LocalEngine(database, listen=listen, synchronous=mode) as engine:
            yield engine.server_address
        return
    code = (
        "import argparse, sys; from dex_agents.cli.engine import add_engine_command; "
        "p = argparse.ArgumentParser(); add_engine_command(p.add_subparsers()); a = p.parse_args(); "
        "sys.exit(a.run(a))"
    )
    command = ["engine", "--data", str(database), "--listen", listen, "--synchronous", synchronous]
    process = subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        yield line.split(" listening on ")[1].strip()
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def measure(place: str, synchronous: str, steps: int, flows: int) -> dict[str, float]:
    """Measure one engine, fresh from an empty database."""
    with tempfile.TemporaryDirectory() as name:
        async with run_engine(place, synchronous, Path(name)) as address:
            flow = CountFlow()
            registry = dex.Registry([flow], allow_async_handlers=True)
            cache = MemoryCache()
            target = dex.WorkerTarget(pull=True)
            client = dex.AsyncClient(
                registry, cache, dex.ClientOptions(server_address=address, worker_target=target)
            )
            pull = dex.PullWorkerOptions(max_concurrent_tasks=WORKER_TASKS)
            worker = dex.AsyncWorker(registry, cache, dex.WorkerOptions(server_address=address, pull=pull))
            serving = asyncio.create_task(worker.start())
            try:
                await worker.wait_pull_registered(timeout=20)
                return await _measure(client, flow, steps, flows)
            finally:
                await worker.close()
                await serving
                await client.close()


async def _measure(client: dex.AsyncClient, flow: CountFlow, steps: int, flows: int) -> dict[str, float]:
    async def run(flow_id: str, count: int) -> None:
        await client.start_flow(flow, flow_id, count)
        result = await client.wait_for_flow(flow_id, BOUND)
        assert result.single_output(str) == f"Count-{count}", "a Step was lost or repeated"

    await run("warm", 50)
    started = time.perf_counter()
    await run("chain", steps)
    per_step = (time.perf_counter() - started) / steps * 1e3
    started = time.perf_counter()
    await asyncio.gather(*(run(f"flow-{number}", 50) for number in range(flows)))
    rate = flows * 50 / (time.perf_counter() - started)
    latencies: list[float] = []
    for _ in range(200):
        started = time.perf_counter()
        await client.invoke_rpc(flow.echo, "warm", "x")
        latencies.append((time.perf_counter() - started) * 1e3)
    latencies.sort()
    return {
        "chain_ms": per_step,
        "steps_per_s": rate,
        "rpc_p50_ms": latencies[100],
        "rpc_p95_ms": latencies[190],
    }


async def measure_call_floor() -> float:
    """Return the milliseconds of a bare unary call between two parts of this process."""
    with tempfile.TemporaryDirectory() as name:

        async def echo(request: bytes, _context: object) -> bytes:
            return request

        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(echo)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor", {"Echo": handler}),))
        address = f"unix:{name}/floor.sock"
        server.add_insecure_port(address)
        await server.start()
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary("/floor/Echo")
            await call(b"warm")
            started = time.perf_counter()
            for _ in range(200):
                await call(b"x" * 200)
            elapsed = time.perf_counter() - started
        await server.stop(None)
        return elapsed / 200 * 1e3


def measure_commit_floor() -> float:
    """Return the milliseconds of one synced commit of one small row."""
    with tempfile.TemporaryDirectory() as name:
        connection = sqlite3.connect(Path(name) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE log (sequence INTEGER PRIMARY KEY, row BLOB)")
        times: list[float] = []
        for _ in range(200):
            started = time.perf_counter()
            connection.execute("INSERT INTO log (row) VALUES (?)", (b"x" * 600,))
            times.append((time.perf_counter() - started) * 1e3)
        connection.close()
        return statistics.median(times)


def show(values: list[float], digits: int) -> str:
    """Return a median with its range."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="benchmark of the local engine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--flows", type=int, default=40)
    arguments = parser.parse_args()
    cases = [(place, mode) for place in ("thread", "process") for mode in ("full", "normal")]
    results: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    call_floors: list[float] = []
    commit_floors: list[float] = []
    for number in range(arguments.rounds):
        call_floors.append(asyncio.run(measure_call_floor()))
        commit_floors.append(measure_commit_floor())
        turn = number % len(cases)
        for case in cases[turn:] + cases[:turn]:
            measured = asyncio.run(measure(*case, arguments.steps, arguments.flows))
            for name, value in measured.items():
                results[case][name].append(value)
    floor = statistics.median(call_floors)
    print(f"Python {platform.python_version()}, {platform.machine()}, rounds: {arguments.rounds}")
    print(f"floor: bare call {show(call_floors, 2)} ms, synced commit {show(commit_floors, 2)} ms\n")
    print(
        "| engine | synchronous | ms a Step, one chain | vs call | Steps/s | RPC p50 ms | vs call | RPC p95"
        " ms |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (place, mode), values in results.items():
        chain, p50 = statistics.median(values["chain_ms"]), statistics.median(values["rpc_p50_ms"])
        print(
            f"| {place} | {mode} | {show(values['chain_ms'], 2)} | {chain / floor:.1f}x "
            f"| {show(values['steps_per_s'], 0)} | {show(values['rpc_p50_ms'], 2)} | {p50 / floor:.1f}x "
            f"| {show(values['rpc_p95_ms'], 2)} |"
        )


if __name__ == "__main__":
    main()
