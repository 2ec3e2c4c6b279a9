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
from dex_agents.cli.typed_lines import TypedLines
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

    def needs_person(self, interrupt: AgentInterrupt) -> bool:
        """Return whether the person has to type something."""
        ...

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
        typed: TypedLines | None = None,
        send_typed: Callable[[str], Awaitable[bool]] | None = None,
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
            typed: Takes what the person types while the turn is at work; `None` takes nothing.
            send_typed: Sends a line of it to the session, and returns whether that was a message.
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
        self._ended_turn: str | None = None
        self._is_closed = False
        self._typed = typed
        self._send_typed = send_typed
        self._sent = 0

    async def follow(self, session_id: str, snapshot: AgentSnapshot | None) -> FollowedTurn:
        """Return when the session is idle or closed, or asks somebody who is not here.

        Args:
            session_id: The session.
            snapshot: What was shown of it; `None` for nothing.

        Raises:
            LeaveSession: The person leaves.
            SessionError: The session could not be served.
        """
        self._ended_turn = None
        self._is_closed = False
        self._cancelling = False
        pump = asyncio.create_task(self._pump(session_id, snapshot))
        self._start_typing()
        try:
            while True:
                sent = self._sent
                progress = await self._show_until(self._wait_for_attention(session_id), session_id)
                if not progress.waits_on_person:
                    if self._sent != sent:
                        # The turn may have ended before the message came: then that begins another.
                        continue
                    return await self._finish(session_id, progress)
                if not await self._handle_questions(session_id, progress):
                    return "waits"
        finally:
            self._view.end_answer()
            if self._typed is not None:
                await self._typed.stop()
            await end_tasks(pump)

    def _start_typing(self) -> None:
        if self._typed is not None:
            self._typed.start()

    async def _pump(self, session_id: str, snapshot: AgentSnapshot | None) -> None:
        async for event in self._client.events(session_id, since=snapshot):
            self._events.put_nowait(event)

    async def _wait_for_attention(self, session_id: str) -> SessionProgress:
        while True:
            with contextlib.suppress(SessionTimeoutError):
                return await self._client.wait_for_attention(session_id, timeout=_ATTENTION_SECONDS)

    async def _show_until(self, awaited: Awaitable[ResultT], session_id: str) -> ResultT:
        """Show events until something else is there; obey the interrupt key and send what is typed."""
        wanted = asyncio.ensure_future(awaited)
        try:
            while not wanted.done():
                arriving = asyncio.ensure_future(self._events.get())
                others = [asyncio.ensure_future(self._stop_wish.wait())]
                if self._typed is not None:
                    others.append(asyncio.ensure_future(self._typed.has_line.wait()))
                try:
                    await asyncio.wait({wanted, arriving, *others}, return_when=asyncio.FIRST_COMPLETED)
                    if arriving.done():
                        self._take(arriving.result())
                    if self._stop_wish.is_set():
                        await self._cancel(session_id)
                    if self._typed is not None and self._typed.has_line.is_set():
                        await self._send_line(self._typed)
                finally:
                    await end_tasks(arriving, *others)
            return wanted.result()
        finally:
            await end_tasks(wanted)

    def _take(self, event: AgentEvent) -> None:
        self._on_event(event)
        if isinstance(event, TurnCompletedEvent | TurnFailed | TurnCancelled):
            self._ended_turn = event.turn_id
        elif isinstance(event, SessionClosed):
            self._is_closed = True

    async def _send_line(self, typed: TypedLines) -> None:
        line = typed.take()
        if self._send_typed is not None and await self._send_typed(line):
            self._sent += 1

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
                if await self._lay_typing_aside(session_id, interrupt):
                    await self._ask(session_id, interrupt)
                self._start_typing()
                return True
        self._tell_how_to_decide(session_id, progress)
        if not self._waits_for_others:
            return False
        first = next(one for one in progress.interrupts if one.waits_on_person)
        await self._show_until(self._wait_until_closed(session_id, first.interrupt_id), session_id)
        return True

    async def _lay_typing_aside(self, session_id: str, interrupt: AgentInterrupt) -> bool:
        """Return whether the person may be asked now: what was typed before must not answer.

        A line that is being typed is finished first. When it is sent, it joins the turn, and the question is
        withdrawn.
        """
        if self._typed is None or self._asker is None or not self._asker.needs_person(interrupt):
            return True
        sent = self._sent
        if not self._typed.is_quiet.is_set():
            self._terminal.say(
                "Finish your line first: Enter sends it and withdraws the question, an empty line is asked.",
                "quiet",
            )
            await self._show_until(self._wait_until_quiet(session_id, interrupt, self._typed), session_id)
            if not self._typed.is_quiet.is_set():
                return False
        await self._typed.stop()
        return self._sent == sent and not self._typed.has_line.is_set()

    async def _wait_until_quiet(self, session_id: str, interrupt: AgentInterrupt, typed: TypedLines) -> None:
        quiet = asyncio.create_task(typed.is_quiet.wait())
        closing = asyncio.create_task(self._wait_until_closed(session_id, interrupt.interrupt_id))
        try:
            await asyncio.wait({quiet, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(quiet, closing)

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
        last = f"turn-{progress.turn_count}"
        await self._catch_up(lambda: self._is_closed or self._ended_turn == last)
        if not self._is_closed and self._ended_turn != last:
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
