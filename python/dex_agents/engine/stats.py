"""What an engine tells its operators about itself."""

from __future__ import annotations

import time

import grpc
import msgspec

from dex_agents.engine.archive import Archive
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.failures import ServiceError, build_status
from dex_agents.engine.transport.calls import Call, CallFailedError, CallHandler, UnaryCall
from dex_agents.engine.transport.listener import Listener
from dex_agents.errors import EngineUnreachableError

STATS_PATH = "/dex_agents.Engine/GetStats"
"""The method that answers an empty message with `EngineReport` as JSON."""


REPORT_TIMEOUT_SECONDS = 20.0


class EngineReport(msgspec.Struct, frozen=True):
    """The state of an engine at one moment.

    Attributes:
        uptime_seconds: Seconds since it began to serve.
        steps: Step methods answered since then.
        rpcs: RPCs answered since then.
        units: Units committed since then.
        commits: Commits they took.
        commit_ms_p50: Median of the last commits, in milliseconds; 0 before the first.
        commit_ms_p99: Their 99th percentile.
        unfolded_units: Committed units that are not in the state tables yet.
        log_bytes: Size of the write-ahead log.
        database_bytes: Size of the database file.
        open_runs: Runs that are open.
        closed_runs: Runs that are closed and kept.
        runs_in_memory: Runs in memory, open or closed.
        waiting: Executions that wait for a message or an instant, by Step type.
        queued: Tasks that wait for a Worker, by Flow type.
        running: Tasks in flight, by Worker.
        instants: Timers, retries and timeouts to come.
        connections: Connections of clients and Workers.
        calls: Calls that are open, streams of Workers and long polls included.
    """

    uptime_seconds: float
    steps: int
    rpcs: int
    units: int
    commits: int
    commit_ms_p50: float
    commit_ms_p99: float
    unfolded_units: int
    log_bytes: int
    database_bytes: int
    open_runs: int
    closed_runs: int
    runs_in_memory: int
    waiting: dict[str, int]
    queued: dict[str, int]
    running: dict[str, int]
    instants: int
    connections: int
    calls: int


async def read_engine_report(server_address: str, token: str | None = None) -> EngineReport:
    """Ask a running engine how it fares.

    Args:
        server_address: Where it listens.
        token: Its bearer token, if it asks for one.

    Raises:
        EngineUnreachableError: Nothing answers there, or it refuses, or it is not such an engine.
    """
    metadata = None if token is None else (("authorization", f"Bearer {token}"),)
    async with grpc.aio.insecure_channel(server_address) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATS_PATH)
        try:
            answer = await ask(b"", timeout=REPORT_TIMEOUT_SECONDS, metadata=metadata)
            return msgspec.json.decode(answer, type=EngineReport)
        except grpc.aio.AioRpcError as error:
            raise EngineUnreachableError(server_address, error.details() or error.code().name) from None
        except msgspec.DecodeError as error:
            raise EngineUnreachableError(server_address, f"its report cannot be read: {error}") from error


class EngineStats:
    """Gathers reports."""

    def __init__(self, coordinator: Coordinator, archive: Archive, listener: Listener) -> None:
        self._coordinator = coordinator
        self._archive = archive
        self._listener = listener
        self._begun = time.monotonic()

    def open(self, call: Call) -> CallHandler:
        """Serve a call of `STATS_PATH`."""
        return UnaryCall(call, self._answer)

    async def _answer(self, _message: bytes) -> bytes:
        try:
            return msgspec.json.encode(await self.gather())
        except ServiceError as failure:
            raise CallFailedError(build_status(failure)) from None

    async def gather(self) -> EngineReport:
        """Report on this moment.

        Raises:
            ServiceError: The engine is ending.
        """
        coordinator = self._coordinator
        committer, dispatcher = coordinator.units.committer, coordinator.attempts.dispatcher
        await committer.wait_folded()
        counts = await self._archive.count()
        latencies = sorted(committer.latencies)
        return EngineReport(
            uptime_seconds=round(time.monotonic() - self._begun, 3),
            steps=dispatcher.answered["step"],
            rpcs=dispatcher.answered["rpc"],
            units=committer.committed_units,
            commits=committer.commits,
            commit_ms_p50=_percentile(latencies, 50),
            commit_ms_p99=_percentile(latencies, 99),
            unfolded_units=committer.backlog,
            log_bytes=committer.log_bytes,
            database_bytes=counts.database_bytes,
            open_runs=counts.open_runs,
            closed_runs=counts.closed_runs,
            runs_in_memory=len(coordinator.runs),
            waiting=counts.waiting,
            queued=dispatcher.count_queued(),
            running={worker.worker_id: worker.busy for worker in dispatcher.workers},
            instants=coordinator.instants,
            connections=len(self._listener.connections),
            calls=len(self._listener.calls),
        )


def _percentile(values: list[float], percent: int) -> float:
    if not values:
        return 0.0
    return round(values[min(len(values) - 1, len(values) * percent // 100)] * 1e3, 3)
