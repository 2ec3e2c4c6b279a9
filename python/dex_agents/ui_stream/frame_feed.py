"""One stream's frames for any number of viewers: a batch is encoded once and its bytes are shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from dex_agents.limits import MAX_JOINED_DELTA_BYTES
from dex_agents.ui_stream.ui_frames import UI_STREAM_DONE, UIStreamPart, encode_ui_frames

__all__ = ["UIFrameFeed"]


class UIFrameFeed:
    """The frames of one stream, from its first part on.

    Parts wait until they are `max_batch_characters` or the first of them is `max_batch_seconds` old, and are
    then encoded as one batch, so that a fast model costs no more writes than a slow one. The feed has no
    clock: whoever owns it passes the time and calls `flush` when `due_at` says so. A viewer that comes late
    or comes again reads from the first batch, which is how a page replays a turn it was cut off from.

    Belongs to the event loop that reads it; the bytes of all batches are kept as long as the feed is.

    Attributes:
        due_at: When the waiting parts have to be flushed, on the clock of `now`; `None` if none wait.
    """

    def __init__(
        self, *, max_batch_characters: int = MAX_JOINED_DELTA_BYTES, max_batch_seconds: float = 0.05
    ) -> None:
        """Open an empty feed.

        Args:
            max_batch_characters: Characters in the strings of waiting parts that are enough for a batch.
            max_batch_seconds: The longest that a part waits.

        Raises:
            ValueError: A bound is negative.
        """
        if max_batch_characters < 0 or max_batch_seconds < 0:
            raise ValueError("max_batch_characters and max_batch_seconds: a bound is negative")
        self._max_characters = max_batch_characters
        self._max_seconds = max_batch_seconds
        self._waiting: list[UIStreamPart] = []
        self._characters = 0
        self._batches: list[bytes] = []
        self._closed = False
        self._changed = asyncio.Event()
        self.due_at: float | None = None

    def add(self, parts: Sequence[UIStreamPart], *, now: float) -> None:
        """Add parts; viewers get them with the batch they are in.

        Args:
            parts: What comes next. The feed reads them when it encodes them: change none of them later.
            now: The time, in seconds on any clock that never goes back.

        Raises:
            ValueError: The feed is closed; or see `flush`.
            TypeError: See `flush`.
        """
        if self._closed:
            raise ValueError("parts: the feed is closed")
        if not parts:
            return
        if self.due_at is None:
            self.due_at = now + self._max_seconds
        self._waiting.extend(parts)
        self._characters += sum(_characters(part) for part in parts)
        if self._characters >= self._max_characters or now >= self.due_at:
            self.flush()

    def flush(self) -> None:
        """Encode what waits and hand it to the viewers.

        Raises:
            TypeError: See `encode_ui_frames`; the parts that waited are then lost, and the owner should end
                the stream as broken.
            ValueError: Likewise.
        """
        if self._waiting:
            waiting, self._waiting, self._characters, self.due_at = self._waiting, [], 0, None
            self._publish(encode_ui_frames(waiting))

    def close(self) -> None:
        """Flush and end the stream as whole; viewers finish after they read it all."""
        if not self._closed:
            self.flush()
            self._closed = True
            self._publish(UI_STREAM_DONE)

    async def batches(self, position: int = 0) -> AsyncIterator[bytes]:
        """Yield batches as they come, until the feed is closed.

        A viewer takes the next batch when it is ready for it; a slow one holds up nobody else.

        Args:
            position: How many batches to leave out.
        """
        while True:
            while position < len(self._batches):
                yield self._batches[position]
                position += 1
            if self._closed:
                return
            await self._changed.wait()

    def _publish(self, batch: bytes) -> None:
        self._batches.append(batch)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _characters(part: UIStreamPart) -> int:
    return sum(len(value) for value in part.values() if isinstance(value, str))
