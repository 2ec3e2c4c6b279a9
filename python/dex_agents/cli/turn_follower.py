"""Following a session until it needs nobody, asking a person in between where there is one.

The events are shown as they come; what is decided on is the committed progress. Whoever else decides first
ends the question here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Final, Literal, Protocol, TypeVar

import msgspec

from dex_agents.cli.event_view import EventView
from dex_agents.cli.task_endings import end_tasks
from dex_agents.cli.terminal import Terminal
from dex_agents.cli.wishes import CancelTurn, LeaveSession
from dex_agents.errors import SessionError, SessionTimeoutError
from dex_agents.session.client import AgentSessionClient
from dex_agents.wire.events import (
    AgentEvent,
    InterruptClosed,
    SessionClosed,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
)
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress

__all__ = ["Asker", "FollowedTurn", "TurnFollower", "encode_event"]

_ATTENTION_SECONDS: Final = 3600.0
_CATCH_UP_SECONDS: Final = 2.0
"""How long events may lag behind what is committed before the rest is read from the snapshot."""

_LOOK_AGAIN_SECONDS: Final = 2.0

FollowedTurn = Literal["completed", "failed", "cancelled", "waits", "closed"]
"""How following ended: with the turn, or, where nobody can be asked, with a question."""

ResultT = TypeVar("ResultT")


class Asker(Protocol):
    """Asks a person."""

    async def ask(self, session_id: str, interrupt: AgentInterrupt) -> None:
        """Ask about one interrupt and send the answer.

        Raises:
            LeaveSession: The person leaves instead.
            CancelTurn: The person cancels the turn instead.
        """
        ...


class TurnFollower:
    """Follows one session."""

    def __init__(
        self,
        client: AgentSessionClient,
        terminal: Terminal,
        view: EventView,
        *,
        asker: Asker | None,
        stop_wish: asyncio.Event,
        waits_for_others: bool = False,
        agent_option: str = "",
        on_event: Callable[[AgentEvent], None] | None = None,
    ) -> None:
        """Say how to follow.

        Args:
            client: Talks to the session.
            terminal: For talk.
            view: Shows events.
            asker: Asks the person here; `None` when there is none.
            stop_wish: Set when the interrupt key is pressed; cleared when that is obeyed. The first time
                cancels the turn, the second leaves it.
            waits_for_others: Without an asker: wait until somebody decides elsewhere.
            agent_option: Names the agent in commands that are suggested, with a space before it.
            on_event: Takes the events in place of `view`.
        """
        self._client = client
        self._terminal = terminal
        self._view = view
        self._asker = asker
        self._waits_for_others = waits_for_others
        self._agent_option = agent_option
        self._on_event = on_event or view.show
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._stop_wish = stop_wish
        self._cancelling = False
        self._ended = False

    async def follow(self, session_id: str, snapshot: AgentSnapshot | None) -> FollowedTurn:
        """Return when the session is idle or closed, or asks somebody who is not here.

        Args:
            session_id: The session.
            snapshot: What was shown of it; `None` for nothing.

        Raises:
            LeaveSession: The person leaves.
            SessionError: The session could not be served.
        """
        self._ended = False
        self._cancelling = False
        pump = asyncio.create_task(self._pump(session_id, snapshot))
        try:
            while True:
                progress = await self._show_until(self._wait_for_attention(session_id), session_id)
                if not progress.waits_on_person:
                    return await self._finish(session_id, progress)
                if not await self._handle_questions(session_id, progress):
                    return "waits"
        finally:
            self._view.end_answer()
            await end_tasks(pump)

    async def _pump(self, session_id: str, snapshot: AgentSnapshot | None) -> None:
        async for event in self._client.events(session_id, since=snapshot):
            self._events.put_nowait(event)

    async def _wait_for_attention(self, session_id: str) -> SessionProgress:
        while True:
            with contextlib.suppress(SessionTimeoutError):
                return await self._client.wait_for_attention(session_id, timeout=_ATTENTION_SECONDS)

    async def _show_until(self, awaited: Awaitable[ResultT], session_id: str) -> ResultT:
        """Show events until something else is there, and obey the interrupt key."""
        wanted = asyncio.ensure_future(awaited)
        try:
            while not wanted.done():
                arriving = asyncio.ensure_future(self._events.get())
                stopping = asyncio.ensure_future(self._stop_wish.wait())
                try:
                    await asyncio.wait({wanted, arriving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if arriving.done():
                        self._take(arriving.result())
                    if stopping.done():
                        await self._cancel(session_id)
                finally:
                    await end_tasks(arriving, stopping)
            return wanted.result()
        finally:
            await end_tasks(wanted)

    def _take(self, event: AgentEvent) -> None:
        self._on_event(event)
        if isinstance(event, TurnCompletedEvent | TurnFailed | TurnCancelled | SessionClosed):
            self._ended = True

    async def _cancel(self, session_id: str) -> None:
        self._stop_wish.clear()
        if self._cancelling:
            raise LeaveSession
        self._cancelling = True
        self._view.end_answer()
        self._terminal.say("Cancelling the turn; once more leaves it to itself.", "quiet")
        with contextlib.suppress(SessionError):
            await self._client.cancel_turn(session_id)

    async def _handle_questions(self, session_id: str, progress: SessionProgress) -> bool:
        await self._catch_up(lambda: False, until_quiet=True)
        for interrupt in progress.interrupts:
            if not interrupt.waits_on_person:
                continue
            self._view.show_interrupt(interrupt)
            if self._asker is not None:
                await self._ask(session_id, interrupt)
                return True
        self._tell_how_to_decide(session_id, progress)
        if not self._waits_for_others:
            return False
        first = next(one for one in progress.interrupts if one.waits_on_person)
        await self._show_until(self._wait_until_closed(session_id, first.interrupt_id), session_id)
        return True

    async def _ask(self, session_id: str, interrupt: AgentInterrupt) -> None:
        assert self._asker is not None
        asking = asyncio.create_task(self._asker.ask(session_id, interrupt))
        closing = asyncio.create_task(self._wait_until_closed(session_id, interrupt.interrupt_id))
        try:
            await asyncio.wait({asking, closing}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
            else:
                await end_tasks(asking)
                self._terminal.say("It was decided elsewhere.", "quiet")
        except CancelTurn:
            await self._cancel(session_id)
        finally:
            await end_tasks(asking, closing)

    async def _wait_until_closed(self, session_id: str, interrupt_id: str) -> None:
        """Return when an interrupt is open no more; events that are not about it stay in their order."""
        while True:
            held: list[AgentEvent] = list(_drain(self._events))
            for event in held:
                self._events.put_nowait(event)
            if any(_closes(event, interrupt_id) for event in held):
                return
            progress = await self._client.get_progress(session_id)
            if all(one.interrupt_id != interrupt_id for one in progress.interrupts):
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS / 4)

    def _tell_how_to_decide(self, session_id: str, progress: SessionProgress) -> None:
        for interrupt in progress.interrupts:
            if not interrupt.waits_on_person:
                continue
            if interrupt.kind == "question":
                for question in interrupt.questions:
                    self._terminal.say(f"? {question.question}", "tool")
                answers = " ".join(f"{question.id}=..." for question in interrupt.questions)
                self._terminal.say(f"To answer: dex-agents answer{self._agent_option} {session_id} {answers}")
            else:
                which = f"{self._agent_option} {session_id} --interrupt {interrupt.interrupt_id}"
                self._terminal.say(f"To decide: dex-agents approve{which}")
                self._terminal.say(f"       or: dex-agents reject{which}")

    async def _finish(self, session_id: str, progress: SessionProgress) -> FollowedTurn:
        await self._catch_up(lambda: self._ended)
        if not self._ended:
            # Events are best effort; the snapshot is the truth.
            snapshot = await self._client.get_agent_snapshot(session_id)
            self._view.end_answer()
            self._view.show_transcript(snapshot, turns=1)
        if progress.status == "closed":
            return "closed"
        return progress.last_turn_outcome or "completed"

    async def _catch_up(self, is_enough: Callable[[], bool], *, until_quiet: bool = False) -> None:
        quiet = 0.1 if until_quiet else _CATCH_UP_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                while not is_enough():
                    async with asyncio.timeout(quiet):
                        event = await self._events.get()
                    self._take(event)


def _drain(events: asyncio.Queue[AgentEvent]) -> Generator[AgentEvent]:
    while not events.empty():
        yield events.get_nowait()


def _closes(event: AgentEvent, interrupt_id: str) -> bool:
    return isinstance(event, InterruptClosed) and event.interrupt_id == interrupt_id


def encode_event(event: AgentEvent) -> str:
    """Return an event as one line of JSON."""
    return msgspec.json.encode(event).decode()
