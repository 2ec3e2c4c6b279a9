"""Looking at sessions: reads, waits and the search for those that wait."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import timedelta
from typing import Final, TypeVar

import msgspec
from dex import (
    AsyncClient,
    Attribute,
    AttributeMatch,
    DexServiceError,
    FlowNotActiveOrNotFoundError,
    LongPollTimeoutError,
    RequestTimeoutError,
    WaitForAttributeOptions,
)

from dex_agents.codecs.events import decode_events
from dex_agents.errors import SessionTimeoutError
from dex_agents.session.calls import SessionCalls
from dex_agents.session.event_cursor import EventCursor
from dex_agents.session.events import SessionEvents
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.session.persistence import MILESTONE, STATUS
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.wire.interrupts import AgentInterrupt, InterruptKind
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress

__all__ = ["POLL_SECONDS", "Bound", "SessionReader", "WaitingSession"]

ValueT = TypeVar("ValueT")

POLL_SECONDS: Final = 20.0
"""One long poll; a longer wait is made of several."""

_SEARCH_PAGE: Final = 100

_FIRST_EVENT_PAGE: Final = 4
"""Enough for a session whose latest turn is over: the turn's end is its newest event."""

_EVENT_PAGE: Final = 64
_WAITING_STEPS: Final[Mapping[InterruptKind, str]] = {
    "approval": "AwaitToolApproval",
    "question": "AwaitQuestionAnswer",
    "wait": "AwaitWaitEnd",
    "task": "PollToolTask",
}


class WaitingSession(msgspec.Struct, frozen=True):
    """A session that waits.

    Attributes:
        session_id: The session.
        interrupts: What it waits on, of the kinds that were asked for, oldest first.
    """

    session_id: str
    interrupts: tuple[AgentInterrupt, ...]


class Bound:
    """How long a caller is willing to wait, and for what."""

    def __init__(self, awaited: str, seconds: float) -> None:
        self._awaited = awaited
        self._seconds = seconds
        self.deadline = time.monotonic() + seconds

    def require_time(self, session_id: str) -> float:
        """Return the seconds that are left, or say that the wait is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise SessionTimeoutError(session_id, self._awaited, self._seconds)
        return left


class SessionReader:
    """The half of `AgentSessionClient` that changes nothing."""

    def __init__(self, client: AsyncClient, flow: AgentSessionFlow) -> None:
        """Wrap a client of the SDK; see `AgentSessionClient`."""
        self._client = client
        self._flow = flow
        self._calls = SessionCalls(client)

    async def get_agent_snapshot(self, session_id: str) -> AgentSnapshot:
        """Return the whole session as of one commit; also after it closed.

        `events(…, since=snapshot)` goes on from it.
        """
        snapshot = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_agent_snapshot, session_id)
        )
        cursor = await self._calls.repeat(session_id, lambda: self._find_cursor(snapshot))
        return msgspec.structs.replace(snapshot, event_cursor=cursor)

    async def get_progress(self, session_id: str) -> SessionProgress:
        """Return where a session stands; cheap, however long it is."""
        return await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_progress, session_id)
        )

    async def list_queued_messages(self, session_id: str) -> tuple[QueuedMessage, ...]:
        """Return the accepted messages that no turn has taken, in the order in which turns will take them."""
        queued = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.list_queued_messages, session_id)
        )
        return queued.messages

    def events(
        self, session_id: str, *, cursor: str | None = None, since: AgentSnapshot | None = None
    ) -> SessionEvents:
        """Return the session's live events, from the oldest one that is kept or from a given point.

        To show a session, take a snapshot and then the events since it: together they show everything once,
        text that is being streamed included.

        Args:
            session_id: The session.
            cursor: From `SessionEvents.cursor`: begin with the event after the last one that was taken there.
            since: From `get_agent_snapshot`: leave out what this snapshot shows. With a `cursor` as well,
                reading begins there; a viewer that comes back hands over both.

        Raises:
            InvalidInputError: The cursor is none.
        """
        return SessionEvents(self._client, self._flow.event_stream, session_id, cursor, since)

    async def wait_for_idle(self, session_id: str, *, timeout: float = 60.0) -> SessionProgress:
        """Wait until no turn runs and no message is queued, or the session has closed.

        Args:
            session_id: The session.
            timeout: Seconds to wait.

        Raises:
            SessionTimeoutError: The session is still busy, or waits on a person.
        """
        bound = Bound("idle", timeout)
        await self._wait_for(session_id, STATUS, AttributeMatch[str].equal_to("idle"), bound)
        # The status may have been read just as a message came in: then another turn is certain to end.
        while _is_busy(progress := await self.get_progress(session_id)):
            await self._wait_for_milestone(session_id, progress, bound)
        return progress

    async def wait_for_attention(self, session_id: str, *, timeout: float = 60.0) -> SessionProgress:
        """Wait until the session needs somebody: it asks a person, is idle, or has closed.

        The live events tell the same earlier, but not yet committed; what this returns can be acted on.

        Args:
            session_id: The session.
            timeout: Seconds to wait.

        Returns:
            Where the session stands; `interrupts` holds what it asks.

        Raises:
            SessionTimeoutError: The session is still busy.
        """
        bound = Bound("idle or waiting", timeout)
        while _is_busy(progress := await self.get_progress(session_id)) and not progress.waits_on_person:
            await self._wait_for_milestone(session_id, progress, bound)
        return progress

    async def waiting_sessions(
        self, on: InterruptKind | Collection[InterruptKind] = ("approval", "question")
    ) -> AsyncIterator[WaitingSession]:
        """Find every session of this Flow that waits, with what to show.

        Args:
            on: What it waits on; by default a person.
        """
        kinds = frozenset((on,) if isinstance(on, str) else on)
        steps = [f'ActiveStepTypes = "{_WAITING_STEPS[kind]}"' for kind in sorted(kinds)]
        if not steps:
            return
        query = f'FlowType = "{self._flow.get_flow_type()}" AND ({" OR ".join(steps)})'
        token = ""
        while True:
            page = await self._client.search_flows(query, _SEARCH_PAGE, token)
            for entry in page.flows:
                progress = await self.get_progress(entry.flow_id)
                wanted = tuple(one for one in progress.interrupts if one.kind in kinds)
                if wanted:
                    yield WaitingSession(entry.flow_id, wanted)
            token = page.next_page_token
            if not token:
                return

    async def _wait_for_milestone(self, session_id: str, seen: SessionProgress, bound: Bound) -> None:
        later = AttributeMatch[int].greater_than(seen.milestone)
        await self._wait_for(session_id, MILESTONE, later, bound, once=True)

    async def _wait_for(
        self,
        session_id: str,
        attribute: Attribute[ValueT],
        match: AttributeMatch[ValueT],
        bound: Bound,
        *,
        once: bool = False,
    ) -> None:
        """Return when an Attribute matches, or when the session has ended.

        Args:
            session_id: The session.
            attribute: What is watched.
            match: What it must be.
            bound: How long.
            once: Return also when one long poll has ended: the caller looks again by itself.
        """
        while True:
            left = bound.require_time(session_id)
            # The engine counts whole seconds, so the last bit is cut off on this side.
            whole_seconds = timedelta(seconds=math.ceil(min(left, POLL_SECONDS)))
            options = WaitForAttributeOptions(request_timeout=whole_seconds)
            wait = self._client.wait_for_attribute_match(session_id, attribute, match, options)
            try:
                # Not `wait_for`: before Python 3.12 it may drop a cancellation of its caller.
                async with asyncio.timeout(left):
                    await wait
                return
            except (TimeoutError, LongPollTimeoutError, RequestTimeoutError):
                if once:
                    return
            except FlowNotActiveOrNotFoundError:
                return
            except DexServiceError as error:
                await self._calls.pause_or_raise(session_id, error, bound.deadline)

    async def _find_cursor(self, snapshot: AgentSnapshot) -> str | None:
        """Look back from the newest event for the one that ends what the snapshot holds."""
        held = EventFilter(snapshot)
        size, token = _FIRST_EVENT_PAGE, ""
        while True:
            page = await self._client.list_stream_messages(
                snapshot.session_id, self._flow.event_stream, size, token
            )
            for message in page.messages:
                if any(held.ends_what_is_held(event) for event in decode_events(message.value)):
                    return EventCursor(message.resume_token).encode()
            size, token = _EVENT_PAGE, page.next_page_token
            if not token:
                return None


def _is_busy(progress: SessionProgress) -> bool:
    return progress.status == "running" or progress.queued_message_count > 0
