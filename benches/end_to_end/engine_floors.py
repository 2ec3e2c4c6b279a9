"""What the machine allows: a round trip on an open gRPC stream, a unary call, and a synced commit.

    python -m benches.end_to_end.engine_floors SOCKET

as a process of its own: serves what the round trips are made with, on `grpc.aio`, until it is ended.
"""

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

__all__ = ["measure_commit_floor", "measure_round_trip_floors"]

_CALLS = 300
_MESSAGE = b"x" * 300


def measure_commit_floor() -> float:
    """Return the milliseconds of one commit of one small row, in WAL mode with `synchronous=FULL`."""
    with tempfile.TemporaryDirectory() as name:
        connection = sqlite3.connect(Path(name) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE log (sequence INTEGER PRIMARY KEY, row BLOB)")
        times: list[float] = []
        for _ in range(_CALLS):
            begun = time.perf_counter()
            connection.execute("INSERT INTO log (row) VALUES (?)", (b"x" * 600,))
            times.append((time.perf_counter() - begun) * 1e3)
        connection.close()
        return statistics.median(times)


async def measure_round_trip_floors() -> tuple[float, float]:
    """Return the milliseconds of a round trip on an open stream, and of a unary call, to another process."""
    with tempfile.TemporaryDirectory() as name:
        address = f"{name}/floor.sock"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benches.end_to_end.engine_floors", address),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            async with grpc.aio.insecure_channel(f"unix:{address}") as channel:
                return await _time_stream(channel), await _time_calls(channel)
        finally:
            process.kill()
            await process.wait()


async def _time_stream(channel: grpc.aio.Channel) -> float:
    open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/floor/Stream")
    call = open_stream()
    times: list[float] = []
    for _ in range(_CALLS):
        begun = time.perf_counter()
        await call.write(_MESSAGE)
        assert await call.read() == _MESSAGE
        times.append((time.perf_counter() - begun) * 1e3)
    await call.done_writing()
    return statistics.median(times)


async def _time_calls(channel: grpc.aio.Channel) -> float:
    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/floor/Call")
    times: list[float] = []
    for _ in range(_CALLS):
        begun = time.perf_counter()
        assert await ask(_MESSAGE) == _MESSAGE
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


async def _serve(path: str) -> None:
    async def answer(request: bytes, _context: object) -> bytes:
        return request

    async def echo(_requests: object, context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    server = grpc.aio.server()
    handlers: dict[str, Any] = {
        "Call": grpc.unary_unary_rpc_method_handler(answer),
        "Stream": grpc.stream_stream_rpc_method_handler(echo),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor", handlers),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
