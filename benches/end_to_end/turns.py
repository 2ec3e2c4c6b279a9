"""dex_agents with its built-in loop on the local engine, as a `TurnPeer`.

Client and Worker live in this process, as in an application; the engine in a process of its own or here.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from benches.end_to_end.turns_driver import (
    STORE_NAME,
    add_plan_arguments,
    read_cpu_seconds,
    run_plan,
)
from benches.workloads.turns import ANSWER, TOOLS, StoredMessage, ToolUse, build_question
from dex_agents import AgentSessionClient, AgentSessionFlow, AgentWorker, ToolEffect
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionTool,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    create_builtin_agent_session_flow,
    function_tool,
)
from dex_agents.engine import LocalEngine

__all__ = ["DexAgentsPeer", "open_engine", "open_peer"]

_Synchronous = Literal["full", "normal"]

_TURN_SECONDS: Final = 60.0
"""Bound of one turn; a slower one is a failure, not a measurement."""

_ENGINE_START_SECONDS: Final = 30.0


class DexAgentsPeer:
    """A Worker and a client on one engine."""

    def __init__(self, engine_pid: int | None) -> None:
        """Build the session Flow; `connect` makes it usable.

        Args:
            engine_pid: The engine's process, when it is not this one.
        """
        self._tool_runs = 0
        self._engine_pid = engine_pid
        self.flow: AgentSessionFlow = create_builtin_agent_session_flow(
            AgentDefinition(
                name="parcels",
                model=ScriptedModelClient(_answer),
                tools=[self._build_tool(use) for use in TOOLS],
            ),
            "BenchTurns",
        )
        self._client: AgentSessionClient | None = None

    @asynccontextmanager
    async def connect(self, server_address: str) -> AsyncIterator[None]:
        """Run a Worker and a client on an engine."""
        async with (
            AgentWorker(self.flow, server_address=server_address),
            AgentSessionClient.connect(self.flow, server_address=server_address) as client,
        ):
            self._client = client
            yield

    async def count_tool_runs(self) -> int:
        """The tools run in this process."""
        return self._tool_runs

    async def start_session(self, session_id: str) -> None:
        """Start it and wait until it takes messages."""
        await self._connected.start_session(session_id)
        await self._connected.wait_for_idle(session_id, timeout=_TURN_SECONDS)

    async def run_turn(self, session_id: str, question: str) -> None:
        """Send a message and wait until its turn is stored."""
        await self._connected.send_user_message(session_id, question)
        progress = await self._connected.wait_for_idle(session_id, timeout=_TURN_SECONDS)
        if progress.last_turn_outcome != "completed":
            raise RuntimeError(f"the turn ended as {progress.last_turn_outcome}: {progress.last_turn_error}")

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read a snapshot."""
        snapshot = await self._connected.get_agent_snapshot(session_id)
        return [
            StoredMessage(message.role, message.tool_output or message.text or "")
            for message in snapshot.messages
        ]

    async def fill_session(self, session_id: str, turns: int) -> None:
        """Run the turns."""
        await self.start_session(session_id)
        for turn in range(turns):
            await self.run_turn(session_id, build_question(turn))

    def read_cpu_seconds(self) -> float | None:
        """Add the engine's process to this one."""
        return read_cpu_seconds(*(() if self._engine_pid is None else (self._engine_pid,)))

    @property
    def _connected(self) -> AgentSessionClient:
        if self._client is None:
            raise RuntimeError("the peer is not connected")
        return self._client

    def _build_tool(self, use: ToolUse) -> FunctionTool:
        async def run(_arguments: dict[str, Any], _context: object) -> str:
            self._tool_runs += 1
            return use.output

        return function_tool(
            name=use.name,
            description=use.name,
            parameters={
                "type": "object",
                "properties": {use.argument: {"type": "string"}},
                "required": [use.argument],
            },
            execute=run,
            effect=ToolEffect.READ,
        )


def _answer(request: ModelRequest) -> ScriptedModelReply:
    if ScriptedModelClient.tool_results(request):
        return ScriptedModelReply(text=ANSWER)
    return ScriptedModelReply(
        tool_calls=tuple(ScriptedToolCall(tool.name, {tool.argument: tool.value}) for tool in TOOLS)
    )


@asynccontextmanager
async def open_engine(
    place: Literal["process", "thread"], synchronous: _Synchronous, folder: Path
) -> AsyncIterator[tuple[str, int | None]]:
    """Run an engine on the store in a folder; yield its address, and its process when that is another."""
    store = folder / STORE_NAME
    if place == "thread":
        async with LocalEngine(store, synchronous=synchronous) as engine:
            yield engine.server_address, None
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents", "engine"),
        *("--data", str(store), "--listen", f"unix:{folder / 'engine.sock'}", "--synchronous", synchronous),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the engine has no output")
        async with asyncio.timeout(_ENGINE_START_SECONDS):
            line = (await process.stdout.readline()).decode()
        if "listening on " not in line:
            raise RuntimeError(f"the engine did not start: {line!r}")
        yield line.rpartition("listening on ")[2].strip(), process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    if process.returncode != 0:
        raise RuntimeError(f"the engine ended with {process.returncode}")


@asynccontextmanager
async def open_peer(
    place: Literal["process", "thread"], synchronous: _Synchronous, folder: Path
) -> AsyncIterator[DexAgentsPeer]:
    """Open engine, Worker and client on the store in a folder."""
    async with open_engine(place, synchronous, folder) as (address, engine_pid):
        peer = DexAgentsPeer(engine_pid)
        async with peer.connect(address):
            yield peer


def main() -> None:
    """Run one plan; see `benches.end_to_end.turns_driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("process", "thread"), required=True)
    parser.add_argument("--synchronous", choices=("full", "normal"), required=True)
    add_plan_arguments(parser)
    arguments = parser.parse_args()
    run_plan(lambda folder: open_peer(arguments.engine, arguments.synchronous, folder), arguments)


if __name__ == "__main__":
    main()
