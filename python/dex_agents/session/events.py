"""Reading a session's live events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from datetime import timedelta
from typing import Final, Self

from dex import AsyncClient, DexServiceError, LongPollTimeoutError, RequestTimeoutError, Stream

from dex_agents.codecs.events import decode_events
from dex_agents.wire.events import AgentEvent, SessionClosed

__all__ = ["SessionEvents"]

_POLL: Final = timedelta(seconds=20)
_RECONNECT_SECONDS: Final = 0.2

_REMEMBERED_STEPS: Final = 1024
"""Far more than a session has under way at once; a viewer may watch for months."""


class SessionEvents:
    """An async iterator over the events of one session, live and without end until the session closes.

    Events of a Step attempt that was lost may have been shown; when the next attempt writes, whatever a lower
    attempt of the same Step still has to say is left out.

    Attributes:
        cursor: Where to go on reading: hand it to another `events` call. `None` before the first batch.
            Events that were taken since the cursor moved are read again then.
    """

    def __init__(
        self, client: AsyncClient, stream: Stream[str], session_id: str, cursor: str | None = None
    ) -> None:
        """Begin at a cursor, or at the oldest event that is kept."""
        self._client = client
        self._stream = stream
        self._session_id = session_id
        self._ready: deque[AgentEvent] = deque()
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._read_to = cursor or ""
        self._ended = False
        self.cursor = cursor

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
            self.cursor = self._read_to or None
            await self._read()
        event = self._ready.popleft()
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
        for event in decode_events(message.value):
            if event.attempt >= self._attempts.get(event.step, 0):
                self._attempts[event.step] = event.attempt
                self._attempts.move_to_end(event.step)
                self._ready.append(event)
        while len(self._attempts) > _REMEMBERED_STEPS:
            self._attempts.popitem(last=False)
