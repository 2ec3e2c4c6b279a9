"""What a tool function is told about the call it serves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.tool_calls import Answer, ToolEffect

__all__ = ["LoopBoundEventWriter", "ToolCallContext"]


@dataclass(frozen=True, kw_only=True)
class ToolCallContext:
    """One attempt of one tool call; a tool function asks for it with an annotated parameter.

    Attributes:
        flow_id: The session ID.
        turn_id: The turn that asked, `turn-<n>`.
        tool_call_id: The call, unique in the session.
        idempotency_key: The same on every attempt of this call and different for every other call; hand it to
            the receiver of an idempotent write. Opaque.
        attempt: Which attempt it is, from 1.
        effect: After the tool policies. A wrapper that turns errors into `ToolExecutionError` must let them
            pass for `non_idempotent_write` and `unclassified`: the write may have happened.
        events: Speaks to live viewers, from an async or a sync function.
        heartbeat: Awaited with JSON text, keeps it for the next attempt. An async function may await it; the
            session sends plain heartbeats by itself.
        cancelled: Set when the turn is cancelled while the function runs. `cancelled.is_set()` may be read
            from any thread.
        answers: What a person answered to the questions of this call so far, by question ID: a text, or a
            tuple of texts. Empty until the function has asked and was answered; those of earlier rounds stay.
            When nobody answered in time, the answer is a text that says so.
        continuation: What the function left in `ToolInputRequested.continuation` when it asked last, or
            `None` when it has not asked yet.
    """

    flow_id: str
    turn_id: str
    tool_call_id: str
    idempotency_key: str
    attempt: int
    effect: ToolEffect
    events: AgentEventWriter
    heartbeat: Callable[[str], Awaitable[None]]
    cancelled: asyncio.Event
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    continuation: str | None = None


class LoopBoundEventWriter:
    """Passes events from a tool's thread to a writer that belongs to an event loop, in order."""

    def __init__(self, writer: AgentEventWriter, loop: asyncio.AbstractEventLoop) -> None:
        self._writer = writer
        self._loop = loop

    def write_text_delta(self, text: str) -> None:
        """See `AgentEventWriter.write_text_delta`."""
        self._pass_on(self._writer.write_text_delta, text)

    def write_reasoning_delta(self, text: str) -> None:
        """See `AgentEventWriter.write_reasoning_delta`."""
        self._pass_on(self._writer.write_reasoning_delta, text)

    def write_tool_progress(self, tool_call_id: str, text: str) -> None:
        """See `AgentEventWriter.write_tool_progress`."""
        self._pass_on(self._writer.write_tool_progress, tool_call_id, text)

    def _pass_on(self, write: Callable[..., None], *arguments: str) -> None:
        # A thread may outlive its cancelled attempt, and the loop too: events are best effort.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(write, *arguments)
