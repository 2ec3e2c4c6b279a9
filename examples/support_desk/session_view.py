"""Shows a session: live from its events, and afterwards from its snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

from dex_agents import (
    AgentEvent,
    AgentSnapshot,
    AgentToolCall,
    InterruptOpened,
    SessionEvents,
    TextDelta,
    ToolCallCompleted,
    ToolCallProgress,
    ToolCallRequested,
    ToolCallStarted,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
)
from examples.terminal import Style, Terminal

__all__ = ["SessionView", "describe_arguments", "print_transcript"]

_MARKS: dict[str, tuple[str, Style]] = {
    "succeeded": ("✓", "good"),
    "failed": ("✗", "bad"),
    "rejected": ("✗", "bad"),
    "not_run": ("-", "quiet"),
    "outcome_unknown": ("?", "bad"),
}


class SessionView:
    """Prints the events of a session while the block is entered.

    Events are best effort and arrive before their Step commits: they are for showing, and
    `AgentSessionClient.wait_for_attention` tells what is so.
    """

    def __init__(self, events: SessionEvents, terminal: Terminal) -> None:
        self._events = events
        self._terminal = terminal
        self._requested: dict[str, AgentToolCall] = {}
        self._turns_ended = 0
        self._seen = asyncio.Condition()
        self._started_tools: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def wait_for_turn_end(self, turns: int, seconds: float) -> bool:
        """Wait until the end of so many turns was printed; `False` when it was not seen in time."""
        return await self._wait_until(lambda: self._turns_ended >= turns, seconds)

    async def wait_for_tool_start(self, tool_name: str, seconds: float) -> bool:
        """Wait until a start of the tool was printed; `False` when it was not seen in time."""
        return await self._wait_until(lambda: tool_name in self._started_tools, seconds)

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds), self._seen:
                await self._seen.wait_for(condition)
        except TimeoutError:
            return False
        return True

    async def _follow(self) -> None:
        async for event in self._events:
            self._print(event)
            match event:
                case TurnCompletedEvent() | TurnFailed() | TurnCancelled():
                    self._turns_ended += 1
                case ToolCallStarted(tool_name=name):
                    self._started_tools.append(name)
                case _:
                    continue
            async with self._seen:
                self._seen.notify_all()

    def _print(self, event: AgentEvent) -> None:
        terminal = self._terminal
        match event:
            case TextDelta(text=text):
                terminal.piece(text, "agent")
            case ToolCallRequested(tool_call=call):
                self._requested[call.tool_call_id] = call
            case ToolCallStarted(tool_call_id=call_id, tool_name=name):
                asked = self._requested.get(call_id)
                arguments = "…" if asked is None else describe_arguments(asked.arguments_to_run)
                terminal.line(f"  ▸ {name}({arguments})", "tool")
            case ToolCallProgress(text=text):
                terminal.line(f"    {text}", "quiet")
            case ToolCallCompleted(tool_call=call):
                mark, style = _MARKS[call.status]
                took = _describe_duration(call)
                terminal.line(f"  {mark} {call.tool_name}: {_describe_outcome(call)}{took}", style)
            case InterruptOpened(interrupt=interrupt):
                arguments = describe_arguments(interrupt.effective_arguments or interrupt.arguments)
                terminal.line(f"  ⏸ {interrupt.tool_name}({arguments}) waits for a person", "tool")
            case TurnCompletedEvent():
                terminal.end_line()
            case TurnFailed(error=error):
                terminal.line(f"  the turn failed: {error}", "bad")
            case _:
                pass


def describe_arguments(arguments: str) -> str:
    """Return JSON arguments as a short `name=value` list."""
    try:
        value: object = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(value, dict):
        return arguments
    named = cast("dict[str, Any]", value).items()
    return ", ".join(f"{name}={json.dumps(part, ensure_ascii=False)}" for name, part in named)


def _describe_duration(call: AgentToolCall) -> str:
    if call.started_at is None or call.finished_at is None:
        return ""
    return f" ({(call.finished_at - call.started_at).total_seconds() * 1000:.0f} ms)"


def _describe_outcome(call: AgentToolCall) -> str:
    if call.status != "succeeded":
        return f"{call.status}: {call.error}"
    try:
        answer: object = json.loads(call.output or "")
    except ValueError:
        return call.output or ""
    match answer:
        case {"hits": list() as hits, "searched": searched}:
            return f"{len(hits)} of {searched}"
        case {"refunds": list() as refunds}:
            return f"{len(refunds)} accepted"
        case {"refund_id": refund_id, "amount": amount, "currency": currency}:
            return f"{refund_id}, {amount} {currency}"
        case {"orders": list() as orders}:
            return f"{len(orders)} orders"
        case {"found": bool() as found}:
            return "found" if found else "not found"
        case _:
            text = call.output or ""
            return text if len(text) <= 80 else text[:79] + "…"


def print_transcript(snapshot: AgentSnapshot, terminal: Terminal) -> None:
    """Print a whole session: every message, and for each tool call its record."""
    records = {call.tool_call_id: call for call in snapshot.tool_calls}
    for message in snapshot.messages:
        label = f"{message.sequence:>3} {message.turn_id:<7}"
        match message.role:
            case "user":
                terminal.line(f"{label} user   {message.text}", "user")
            case "assistant":
                if message.text:
                    terminal.line(f"{label} agent  {_indent(message.text)}", "agent")
            case "tool":
                call = records.get(message.tool_call_id or "")
                status = "no record" if call is None else call.status
                arguments = describe_arguments(message.tool_arguments or "")
                terminal.line(f"{label} tool   {message.tool_name}({arguments}): {status}", "tool")
            case "note":
                terminal.line(f"{label} note   {message.text}", "quiet")


def _indent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"{' ' * 19}{line}".rstrip() for line in rest)])
