"""Reading a session's live events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Self

from dex import AsyncClient, DexServiceError, LongPollTimeoutError, RequestTimeoutError, Stream

from dex_agents.codecs.events import decode_events
from dex_agents.session.event_cursor import EventCursor
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.wire.events import AgentEvent, SessionClosed
from dex_agents.wire.snapshots import AgentSnapshot

__all__ = ["SessionEvents"]

_POLL: Final = timedelta(seconds=20)
_RECONNECT_SECONDS: Final = 0.2

_REMEMBERED_STEPS: Final = 1024
"""Far more than a session has under way at once; a viewer may watch for months."""


class SessionEvents:
    """An async iterator over the events of one session, live and without end until the session closes.

    Events of a Step attempt that was lost may have been shown; when the next attempt writes, whatever a lower
    attempt of the same Step still has to say is left out. An event with a higher `attempt` than an earlier
    one of the same `step` takes back everything that the earlier attempt said.
    """

    def __init__(
        self,
        client: AsyncClient,
        stream: Stream[str],
        session_id: str,
        cursor: str | None = None,
        since: AgentSnapshot | None = None,
    ) -> None:
        """Begin at a cursor, at the cursor of a snapshot, or at the oldest event that is kept.

        Raises:
            InvalidInputError: The cursor is none.
        """
        self._client = client
        self._stream = stream
        self._session_id = session_id
        self._ready: deque[AgentEvent] = deque()
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._filter = None if since is None else EventFilter(since)
        if cursor is None and since is not None:
            cursor = since.event_cursor
        self._position = EventCursor("") if cursor is None else EventCursor.decode(cursor)
        self._read_to = self._position.token
        self._ended = since is not None and since.status == "closed"

    @property
    def cursor(self) -> str | None:
        """Where to go on reading: another `events` call with it begins with the event after the latest one.

        `None` before the first event.
        """
        return None if self._position == EventCursor("") else self._position.encode()

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> AgentEvent:
        """Return the next event, waiting for it as long as it takes.

        Raises:
            StopAsyncIteration: The session closed.
        """
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        event = self._ready.popleft()
        if self._ready:
            before = self._position.token
            self._position = EventCursor(before, event.step, event.attempt, event.seq)
        else:
            self._position = EventCursor(self._read_to)
        self._ended = isinstance(event, SessionClosed)
        return event

    async def _read(self) -> None:
        try:
            message = await self._client.read_stream(
                self._session_id, self._stream, self._read_to, timeout=_POLL
            )
        except (LongPollTimeoutError, RequestTimeoutError):
            return
        except DexServiceError as error:
            if error.code.name != "UNAVAILABLE":
                raise
            await asyncio.sleep(_RECONNECT_SECONDS)
            return
        self._read_to = message.resume_token
        events = decode_events(message.value)
        taken = self._count_taken(events)
        for event in events:
            if event.attempt >= self._attempts.get(event.step, 0):
                self._attempts[event.step] = event.attempt
                self._attempts.move_to_end(event.step)
                if event.seq > taken and (self._filter is None or not self._filter.holds(event)):
                    self._ready.append(event)
        if not self._ready:
            self._position = EventCursor(self._read_to)
        while len(self._attempts) > _REMEMBERED_STEPS:
            self._attempts.popitem(last=False)

    def _count_taken(self, events: Sequence[AgentEvent]) -> int:
        """Return up to which `seq` the events of a message lie before the cursor that reading began with.

        One attempt wrote the whole message and counted its events, whatever Step they are told under.
        """
        position = self._position
        is_divided = any((one.step, one.attempt) == (position.step, position.attempt) for one in events)
        return position.seq if is_divided else 0
