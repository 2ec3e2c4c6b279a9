"""What a Step, an RPC and an idle run cost on the local engine, through the unmodified SDK.

    python -m benches.end_to_end.bench_engine [--rounds N] [--idle N,N,...] [--sessions N]

For each durability and place of the engine it prints milliseconds a Step in one chain of Steps, Steps a
second over many chains, and the time of a read-only RPC. Floors of the same run stand beside them: a round
trip on an open gRPC stream, a unary gRPC call, one synced commit of one small row, and a bare sync. Then it
starts engines on databases full of idle runs, and compares turns of active sessions beside thousands of idle
ones with turns without them. Rounds are rotated and the median is shown with the range; the Steps and the
tools are checked to have run exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import dex

from benches.end_to_end.engine_floors import measure_commit_floor, measure_round_trip_floors
from benches.end_to_end.idle_runs import fill_database
from benches.end_to_end.idle_sessions import ACTIVE_SESSIONS, measure_beside_idle_sessions
from benches.measurement import environment_line, format_spread, sample_sync_milliseconds
from benches.verdicts import Verdict, print_verdicts, tell_slow_disk
from dex_agents import _native
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
    command = ["engine", "--data", str(database), "--listen", listen, "--synchronous", synchronous]
    process = subprocess.Popen(
        [sys.executable, "-m", "dex_agents", *command], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        yield line.split(" listening on ")[1].strip()
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def measure(place: str, synchronous: str, steps: int, flows: int) -> dict[str, float]:
    """Measure one engine on an empty database."""
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


def start_on(database: Path) -> dict[str, float]:
    """Start an engine in a process of its own; return seconds until it served, and its memory."""
    command = [sys.executable, "-m", "benches.end_to_end.idle_runs", str(database)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    started: dict[str, float] = json.loads(process.stdout)
    return started


async def measure_steps(rounds: int, steps: int, flows: int) -> Verdict:
    """Measure every place and durability beside the floors, and print a table."""
    cases = [(place, mode) for place in ("thread", "process") for mode in ("full", "normal")]
    results: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    trips: list[float] = []
    calls: list[float] = []
    commits: list[float] = []
    syncs: list[float] = []
    for number in range(rounds):
        turn = number % len(cases)
        for case in cases[turn:] + cases[:turn]:
            # Beside each case: a disk that others use may be ten times slower a minute later.
            trip, call = await measure_round_trip_floors()
            with tempfile.TemporaryDirectory() as folder:
                syncs += sample_sync_milliseconds(Path(folder))
            commit = measure_commit_floor()
            measured = await measure(*case, steps, flows)
            commit = statistics.mean([commit, measure_commit_floor()])
            trips.append(trip)
            calls.append(call)
            commits.append(commit)
            floor = trip + (commit if case[1] == "full" else 0.0)
            measured["chain_ratio"] = measured["chain_ms"] / floor
            measured["rpc_ratio"] = measured["rpc_p50_ms"] / call
            for name, value in measured.items():
                results[case][name].append(value)
    print(
        f"floors: stream round trip {format_spread(trips, 2)} ms, unary call {format_spread(calls, 2)} ms,"
        f" synced commit {format_spread(commits, 2)} ms, fdatasync p50 {format_spread(syncs, 2)} ms\n"
    )
    print(
        "| engine | synchronous | ms a Step, one chain | of round trip + commit | Steps/s, "
        f"{flows} chains | RPC p50 ms | of a call | RPC p95 ms |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (place, mode), values in results.items():
        print(
            f"| {place} | {mode} | {format_spread(values['chain_ms'], 2)} "
            f"| {format_spread(values['chain_ratio'], 1)}x "
            f"| {format_spread(values['steps_per_s'], 0)} | {format_spread(values['rpc_p50_ms'], 2)} "
            f"| {format_spread(values['rpc_ratio'], 1)}x | {format_spread(values['rpc_p95_ms'], 2)} |"
        )
    ratio = statistics.median(results["process", "full"]["chain_ratio"])
    told = "a Step of one chain (process, full) vs a round trip and a commit"
    if not (slow_disk := tell_slow_disk(syncs)):
        told += f", fdatasync p50 {statistics.median(syncs):.2f} ms"
    return Verdict(told, ratio, 3.0, is_upper_bound=True, skipped=slow_disk)


def measure_idle_runs(rounds: int, counts: Sequence[int]) -> None:
    """Start engines on files of idle runs, and print what that takes."""
    print("\n| idle runs | database MB | start s | memory MB | bytes a run |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "0.db"
        fill_database(empty, 0, "CountFlow", "Wait", "inbox")
        started = [start_on(empty) for _ in range(rounds)]
        base = statistics.median([each["megabytes"] for each in started])
        _print_start(0, empty, started, "-")
        for count in counts:
            database = Path(name) / f"{count}.db"
            fill_database(database, count, "CountFlow", "Wait", "inbox")
            started = [start_on(database) for _ in range(rounds)]
            above = statistics.median([each["megabytes"] for each in started]) - base
            _print_start(count, database, started, f"{max(0.0, above) * 2**20 / count:.0f}")


def _print_start(count: int, database: Path, started: Sequence[dict[str, float]], bytes_a_run: str) -> None:
    seconds, memory = ([each[name] for each in started] for name in ("seconds", "megabytes"))
    print(
        f"| {count:,} | {database.stat().st_size / 1e6:.0f} | {format_spread(seconds, 2)} "
        f"| {format_spread(memory, 1)} | {bytes_a_run} |"
    )


async def measure_idle_sessions(rounds: int, count: int) -> Verdict:
    """Compare turns beside idle sessions with turns without, and print both."""
    measured = await measure_beside_idle_sessions(count, rounds)
    print(
        f"\n{count:,} idle sessions, started in {measured.fill_seconds:.0f} s, "
        f"{measured.file_bytes / 1e6:.1f} MB; {ACTIVE_SESSIONS} active sessions, engine process, full"
    )
    print("| idle sessions | turns/s |")
    print("| --- | --- |")
    for idle, seconds in ((count, measured.beside_idle), (0, measured.alone)):
        print(f"| {idle:,} | {format_spread([1 / each for each in seconds], 1)} |")
    ratio = measured.compare()
    print(f"turns/s with against without: {ratio}")
    return Verdict(f"active turns/s with {count:,} idle sessions vs none", ratio.median, 0.95, 0.9)


async def run(arguments: argparse.Namespace) -> None:
    """Measure everything on one event loop: gRPC dislikes a second one."""
    verdicts = [await measure_steps(arguments.rounds, arguments.steps, arguments.flows)]
    counts = [int(count) for count in arguments.idle.split(",") if count]
    if counts:
        measure_idle_runs(arguments.rounds, counts)
    if arguments.sessions:
        verdicts.append(await measure_idle_sessions(arguments.rounds, arguments.sessions))
    print_verdicts(verdicts)


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description="benchmark of the local engine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--flows", type=int, default=64)
    parser.add_argument("--idle", default="1000,10000,100000", help="numbers of idle runs; empty for none")
    parser.add_argument("--sessions", type=int, default=10_000, help="idle sessions beside turns; 0 for none")
    arguments = parser.parse_args()
    if _native.build_profile != "release":
        sys.exit("bench_engine: the extension is a development build; run `make bench-engine`")
    print(f"{environment_line()}, rounds: {arguments.rounds}")
    asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
