"""A tool server that applies a call and drops the connection, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from dex_agents import ToolExecutionResult
from dex_agents.runner.outcomes import ToolOutcome
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.tool_sources.contract import SourceTool
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import answers, ask, asking, build_flow, serve


class ToolServer:
    """Answers `<tool> <idempotency key>` lines; what it has applied is kept over its restarts."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, str]] = []
        self.drops = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.closing(writer):
            while line := (await reader.readline()).decode():
                tool, key = line.split()
                self.applied.append((tool, key))
                if self.drops > 0:
                    self.drops -= 1
                    return
                writer.write(f"did {tool}\n".encode())


class SocketSource:
    """Offers a read and a write of a `ToolServer`, over one connection that is opened anew when it broke."""

    name = "socket"

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()

    async def list_tools(self) -> Sequence[SourceTool]:
        effects = {"look": ToolEffect.READ, "pay": ToolEffect.NON_IDEMPOTENT_WRITE}
        return [
            SourceTool(
                name=name,
                description=name,
                parameters={"type": "object"},
                effect=effect,
                requires_approval=False,
            )
            for name, effect in effects.items()
        ]

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        async with self._lock:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
            reader, writer = self._streams
            try:
                writer.write(f"{call.tool_name} {call.idempotency_key}\n".encode())
                reply = await reader.readline()
            except OSError:
                reply = b""
            if not reply:
                writer.close()
                self._streams = None
                raise ConnectionError("the server closed the connection before it answered")
            return ToolExecutionResult(reply.decode().strip())


@contextlib.asynccontextmanager
async def _tool_server() -> AsyncGenerator[tuple[ToolServer, SocketSource]]:
    server = ToolServer()
    source = SocketSource(server)
    await server.start()
    try:
        yield server, source
    finally:
        await source.close()
        await server.stop()


@pytest.mark.case("BR-010")
async def test_a_write_whose_answer_was_dropped_is_not_sent_again_and_a_read_is(tmp_path: Path) -> None:
    async with _tool_server() as (server, source):
        flow = build_flow(tool_sources=[source])
        async with serve(tmp_path / "a.db", flow) as client:
            await client.start_session("s")
            for tool in ("pay", "look"):
                server.drops = 1
                await ask(client, "s", asking((tool, {})))
            pay, look = (await client.get_agent_snapshot("s")).tool_calls
    assert [pay.status, look.status, look.output] == ["outcome_unknown", "succeeded", "did look"]
    keys = [f"s/{call.turn_id}/{call.tool_call_id}" for call in (pay, look)]
    assert server.applied == [("pay", keys[0]), ("look", keys[1]), ("look", keys[1])]


@pytest.mark.case("BR-011")
async def test_after_a_restart_of_the_server_later_calls_use_the_new_connection(tmp_path: Path) -> None:
    async with _tool_server() as (server, source):
        flow = build_flow(tool_sources=[source])
        async with serve(tmp_path / "a.db", flow) as client:
            await client.start_session("s")
            await ask(client, "s", asking(("look", {})))
            server.drops = 1
            await ask(client, "s", asking(("pay", {})))
            await server.stop()
            await server.start()
            await ask(client, "s", asking(("pay", {}), ("look", {})))
            calls = (await client.get_agent_snapshot("s")).tool_calls
            said = await answers(client, "s")
    assert [call.status for call in calls] == ["succeeded", "outcome_unknown", "succeeded", "succeeded"]
    assert [tool for tool, _ in server.applied].count("pay") == 2
    assert server.connections == 2
    assert said[-1] == "did pay | did look"
