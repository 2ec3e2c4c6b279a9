"""One engine process, its Worker processes, and a client in the test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dex_agents import (
    AgentInterrupt,
    AgentMessage,
    AgentSessionClient,
    AgentSnapshot,
    AgentToolCall,
    AgentUserMessage,
)
from dex_agents.testing import EngineProcess, FileGate, Invocation, InvocationLog, WorkerProcess, poll_until
from tests.crash.agent import (
    ONCE_ONLY_TOOLS,
    build_answer,
    build_message,
    create_flow,
    gate_at,
    invocation_log,
    read_requests,
)
from tests.crash.verdict import (
    find_invalid_requests,
    find_lost_messages,
    find_repeated_writes,
    find_unpaired_calls,
    find_untrue_records,
)

__all__ = ["BOUND", "Stage", "answers", "call_of"]

BOUND: Final = 60.0
"""Seconds for anything that a test waits for."""


@dataclass
class Stage:
    """What a crash test acts on.

    Attributes:
        folder: Holds the database, the gates and the logs.
        engine: The engine's process.
        sessions: Talks to the sessions.
        log: What the tools did outside.
    """

    folder: Path
    engine: EngineProcess
    sessions: AgentSessionClient
    log: InvocationLog
    _workers: contextlib.AsyncExitStack
    _acknowledged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @classmethod
    @contextlib.asynccontextmanager
    async def set_up(cls, folder: Path) -> AsyncGenerator[Stage]:
        """Start an engine; every process is killed at the end."""
        async with (
            EngineProcess(folder / "engine.db") as engine,
            contextlib.AsyncExitStack() as workers,
            AgentSessionClient.connect(
                create_flow(str(folder)), server_address=engine.server_address
            ) as sessions,
        ):
            yield cls(folder, engine, sessions, invocation_log(folder), workers)

    async def start_worker(self, *pause_at: str) -> WorkerProcess:
        """Start a Worker that stops at the points named; see `tests.crash.agent`."""
        return await self._workers.enter_async_context(
            WorkerProcess(
                "tests.crash.agent:create_flow",
                server_address=self.engine.server_address,
                arguments=(str(self.folder), *pause_at),
            )
        )

    def gate(self, point: str) -> FileGate:
        """Return the gate of a point."""
        return gate_at(self.folder, point)

    async def send(self, session_id: str, text: str, message_id: str | None = None) -> None:
        """Send a message and remember that it was acknowledged."""
        sent = self._acknowledged.setdefault(session_id, [])
        chosen = message_id or f"m{len(sent) + 1}"
        await self.sessions.send_user_message(session_id, AgentUserMessage(text, chosen))
        sent.append(chosen)

    async def wait_for_interrupts(self, session_id: str, count: int = 1) -> tuple[AgentInterrupt, ...]:
        """Wait until exactly so many questions are open."""

        async def asked() -> tuple[AgentInterrupt, ...]:
            interrupts = (await self.sessions.get_progress(session_id)).interrupts
            return interrupts if len(interrupts) == count else ()

        return await poll_until(asked, timeout=BOUND, awaited=f"{count} open questions")

    async def approve(self, session_id: str, count: int = 1) -> None:
        """Approve each of so many open questions."""
        for interrupt in await self.wait_for_interrupts(session_id, count):
            assert await self.sessions.resolve_interrupt(session_id, interrupt.interrupt_id, "approve")

    async def approve_everything(self, session_id: str) -> None:
        """Approve whatever is asked; never ends by itself."""

        async def approve_what_is_open() -> None:
            for interrupt in (await self.sessions.get_progress(session_id)).interrupts:
                await self.sessions.resolve_interrupt(session_id, interrupt.interrupt_id, "approve")

        await poll_until(approve_what_is_open, timeout=BOUND, awaited="the end of the test")

    async def settle(self, session_id: str) -> AgentSnapshot:
        """Wait until the session is idle, require what must hold after any crash, and one more turn."""
        await self.sessions.wait_for_idle(session_id, timeout=BOUND)
        before = await self.sessions.get_agent_snapshot(session_id)
        number = len(self._acknowledged.get(session_id, ())) + 1
        await self.send(session_id, build_message(f"check {number}"))
        progress = await self.sessions.wait_for_idle(session_id, timeout=BOUND)
        assert progress.last_turn_outcome == "completed", progress
        after = await self.sessions.get_agent_snapshot(session_id)
        assert after.messages[-1].text == build_answer(f"check {number}", 0)
        assert after.messages[: len(before.messages)] == before.messages
        self.require_truth(after)
        return before

    def require_truth(self, snapshot: AgentSnapshot) -> None:
        """Require that the settled session and the outside world agree."""
        runs = self.log.read()
        assert find_repeated_writes(runs, ONCE_ONLY_TOOLS) == []
        assert find_lost_messages(snapshot, self._acknowledged.get(snapshot.session_id, ())) == []
        assert find_untrue_records(snapshot, runs) == []
        assert find_unpaired_calls(snapshot) == []
        assert find_invalid_requests(read_requests(self.folder)) == []

    def runs(self, tool_name: str) -> tuple[Invocation, ...]:
        """Return what one tool did outside."""
        return self.log.read(tool_name)


def call_of(snapshot: AgentSnapshot, tool_name: str) -> AgentToolCall:
    """Return the only record of a tool."""
    (call,) = (one for one in snapshot.tool_calls if one.tool_name == tool_name)
    return call


def answers(snapshot: AgentSnapshot) -> list[str]:
    """Return what the model said, oldest first, apart from what it said beside its calls."""
    said: list[AgentMessage] = [one for one in snapshot.messages if one.role == "assistant"]
    return [one.text for one in said if one.text is not None and one.text != "I will see to it."]
