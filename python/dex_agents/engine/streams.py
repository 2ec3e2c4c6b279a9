"""Message streams: append, read on, list back.

A stream belongs to a Flow ID and shares the capacity of its Flow type's stream of that name. Recent messages
are kept in memory, so a reader that keeps up costs no query; older ones are read from the database. Readers
see durable messages only, hence a resume token never points to something that a crash took back.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument, long_poll_expired
from dex_agents.engine.journal import Table
from dex_agents.engine.store.reader import StreamMessageRow, StreamRow
from dex_agents.engine.store.writer import Folded
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import validate_inline_size, validate_value

TAIL_BYTES = 32 * 1024 * 1024
"""Budget for recent messages in memory, over all streams."""

MESSAGE_OVERHEAD_BYTES = 200
"""What a message costs in memory beside its value."""

MAX_PAGE_SIZE = 1000
MAX_PAGE_BYTES = 3_000_000
"""Size from which a page ends early: the SDK keeps gRPC's receive limit of 4 MiB."""

DEFAULT_CAPACITY_BYTES = 1024 * 1024
"""Capacity of a stream whose writer states none."""


class StreamKey(NamedTuple):
    """Names a stream.

    Attributes:
        flow_type: Flow type that declares it.
        name: Its name there.
        flow_id: Flow ID it belongs to.
    """

    flow_type: str
    name: str
    flow_id: str


class StreamArchive(Protocol):
    """Where messages that are not in memory come from."""

    async def load_after(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        """Return the first messages of a stream after a position, oldest first."""
        ...

    async def load_before(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        """Return the last messages of a stream before a position, newest first."""
        ...

    async def has_message(self, stream: int, sequence: int) -> bool:
        """Tell whether a message of a stream is still retained."""
        ...


class _Group:
    """Streams that share a capacity.

    Attributes:
        number: Its number.
        capacity: Budget in bytes.
        numbers: Every stream by its Flow ID. There may be hundreds of thousands, so only those in use are
            more than a number.
    """

    __slots__ = ("capacity", "number", "numbers")

    def __init__(self, number: int, capacity: int) -> None:
        self.number = number
        self.capacity = capacity
        self.numbers: dict[str, int] = {}


class _Stream:
    """A stream in use: it has recent messages, readers, or a message on its way to the disk.

    Everything from `tail_start` on is in `tail`, everything before it in the database.
    """

    __slots__ = ("key", "number", "tail", "tail_start", "users", "waiters")

    def __init__(self, key: StreamKey, number: int, tail_start: int) -> None:
        self.key = key
        self.number = number
        self.users = 0
        self.tail: deque[StreamMessageRow] = deque()
        self.tail_start = tail_start
        self.waiters: list[asyncio.Future[None]] = []


class Streams:
    """All streams of a database."""

    def __init__(self, archive: StreamArchive, rows: Sequence[StreamRow], last_sequence: int) -> None:
        """Rebuild the streams from the database, without their messages.

        Args:
            archive: Where older messages are read.
            rows: Every stream.
            last_sequence: The highest message sequence ever used.
        """
        self._archive = archive
        self._groups: dict[tuple[str, str], _Group] = {}
        self._streams: dict[StreamKey, _Stream] = {}
        self._last_sequence = last_sequence
        self._last_group = 0
        self._last_stream = 0
        # In append order over all streams: the sequence of each message, and that of the journal to be
        # folded before it may go. Not the message, which may have gone for another reason.
        self._order: deque[tuple[_Stream, int, int]] = deque()
        self._tail_bytes = 0
        self._tail_messages = 0
        for row in rows:
            group = self._groups.get((row.flow_type, row.name))
            if group is None:
                group = self._groups[row.flow_type, row.name] = _Group(row.group, row.capacity)
            group.numbers[row.flow_id] = row.stream
            self._last_group = max(self._last_group, row.group)
            self._last_stream = max(self._last_stream, row.stream)

    def append(
        self,
        key: StreamKey,
        value: pb.Value,
        unit: Unit,
        *,
        capacity: int,
        source: str,
        now: float,
    ) -> None:
        """Append a message; readers see it once the unit is durable.

        Args:
            key: The stream; its Flow need not exist.
            value: The message; at most `MAX_INLINE_BYTES`.
            unit: Where to record it.
            capacity: Budget in bytes that all Flow IDs share, or 0 for the present one.
            source: What wrote it.
            now: The current time.

        Raises:
            ServiceError: A name is empty or the value unusable.
        """
        if not all(key):
            raise invalid_argument("stream_name", "flow type, stream name and flow ID must not be empty")
        if capacity < 0:
            raise invalid_argument("stream_capacity_bytes", "must not be negative")
        validate_value(value, "stream message")
        validate_inline_size(value, "stream message")
        group = self._require_group(key, capacity, unit)
        stream = self._require_stream(key, group, unit)
        self._last_sequence += 1
        encoded = value.SerializeToString()
        message = StreamMessageRow(self._last_sequence, now, source, encoded)
        unit.put(
            Table.STREAM_MESSAGE,
            (message.sequence,),
            group.number,
            stream.number,
            now,
            source,
            encoded,
            len(encoded),
        )
        unit.effects.append(lambda: self._publish(stream, message, unit.sequence))

    async def read(self, key: StreamKey, resume_token: str, seconds: float) -> StreamMessageRow:
        """Return the first retained message after a position; wait for one if there is none.

        Raises:
            ServiceError: The token is malformed, or no message came within `seconds`.
        """
        after = _parse_token(resume_token, "resume_token") if resume_token else 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        with self._using(key) as stream:
            while True:
                found = await self._find_after(stream, after)
                if found is not None:
                    return found
                if stream.tail and stream.tail[-1].sequence > after:
                    continue
                if loop.time() >= deadline:
                    raise long_poll_expired()
                waiter: asyncio.Future[None] = loop.create_future()
                stream.waiters.append(waiter)
                try:
                    async with asyncio.timeout_at(deadline):
                        await waiter
                except TimeoutError:
                    raise long_poll_expired() from None
                finally:
                    if waiter in stream.waiters:
                        stream.waiters.remove(waiter)

    async def list_before(
        self, key: StreamKey, page_size: int, before_token: str
    ) -> tuple[list[StreamMessageRow], str]:
        """Return a page of messages, newest first, and the token of the next one or `""`.

        Raises:
            ServiceError: The token or the page size is malformed.
        """
        if page_size < 0:
            raise invalid_argument("page_size", "must not be negative")
        size = min(page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
        with self._using(key) as stream:
            return await self._list_before(stream, size, before_token)

    async def _list_before(
        self, stream: _Stream, size: int, before_token: str
    ) -> tuple[list[StreamMessageRow], str]:
        if not stream.number:
            return [], ""
        before = self._last_sequence + 1
        if before_token:
            before = _parse_token(before_token, "before_page_token")
            if not await self._is_retained(stream, before):
                return [], ""
        end = bisect_left(stream.tail, before, key=_read_sequence)
        found = [stream.tail[index] for index in range(end - 1, max(-1, end - size - 2), -1)]
        if len(found) <= size and stream.tail_start > 1:
            oldest = min(before, stream.tail_start)
            found.extend(await self._archive.load_before(stream.number, oldest, size + 1 - len(found)))
        page: list[StreamMessageRow] = []
        used = 0
        for message in found[:size]:
            used += len(message.value) + MESSAGE_OVERHEAD_BYTES
            if page and used > MAX_PAGE_BYTES:
                break
            page.append(message)
        return page, str(page[-1].sequence) if len(page) < len(found) else ""

    def remove(self, flow_id: str, unit: Unit) -> bool:
        """Remove the streams of a Flow ID with their messages; `False` if somebody uses one of them."""
        groups = [(key, group) for key, group in self._groups.items() if flow_id in group.numbers]
        streams = [self._streams.get(StreamKey(*key, flow_id)) for key, _ in groups]
        if any(stream is not None and stream.users for stream in streams):
            return False
        for stream in streams:
            while stream is not None and stream.tail:
                self._drop_first(stream)
        for _, group in groups:
            unit.delete(Table.STREAM, (group.numbers.pop(flow_id),))
        return True

    def note_folded(self, folded: Folded) -> None:
        """Drop messages from memory that were trimmed, and old ones that readers of the database can see."""
        for stream in list(self._streams.values()) if folded.trimmed else ():
            group = self._groups.get(stream.key[:2])
            first = 0 if group is None else folded.trimmed.get(group.number, 0)
            while stream.tail and stream.tail[0].sequence < first:
                self._drop_first(stream)
        while self._order and self._order[0][2] <= folded.sequence:
            stream, sequence, _ = self._order[0]
            is_kept = bool(stream.tail) and stream.tail[0].sequence == sequence
            if is_kept and self._tail_bytes <= TAIL_BYTES:
                break
            if is_kept:
                self._drop_first(stream)
            self._order.popleft()
        if len(self._order) > 2 * self._tail_messages:
            # Streams were trimmed or removed while an older message of a quiet one was kept.
            self._order = deque(entry for entry in self._order if entry[1] >= entry[0].tail_start)

    def _publish(self, stream: _Stream, message: StreamMessageRow, sequence: int) -> None:
        stream.tail.append(message)
        self._order.append((stream, message.sequence, sequence))
        self._tail_bytes += len(message.value) + MESSAGE_OVERHEAD_BYTES
        self._tail_messages += 1
        waiters, stream.waiters = stream.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._leave(stream)

    def _drop_first(self, stream: _Stream) -> None:
        message = stream.tail.popleft()
        stream.tail_start = message.sequence + 1
        self._tail_bytes -= len(message.value) + MESSAGE_OVERHEAD_BYTES
        self._tail_messages -= 1
        self._drop_if_unused(stream)

    async def _find_after(self, stream: _Stream, after: int) -> StreamMessageRow | None:
        while after + 1 < stream.tail_start:
            start = stream.tail_start
            older = await self._archive.load_after(stream.number, after, 1)
            if older:
                return older[0]
            # Messages that left memory during the query may not have been in what it saw.
            if stream.tail_start == start:
                break
        index = bisect_right(stream.tail, after, key=_read_sequence)
        return stream.tail[index] if index < len(stream.tail) else None

    async def _is_retained(self, stream: _Stream, sequence: int) -> bool:
        if sequence >= stream.tail_start:
            return any(message.sequence == sequence for message in stream.tail)
        return await self._archive.has_message(stream.number, sequence)

    def _require_group(self, key: StreamKey, capacity: int, unit: Unit) -> _Group:
        group = self._groups.get(key[:2])
        if group is None:
            self._last_group += 1
            group = self._groups[key[:2]] = _Group(self._last_group, 0)
            capacity = capacity or DEFAULT_CAPACITY_BYTES
        if capacity and capacity != group.capacity:
            group.capacity = capacity
            unit.put(Table.STREAM_GROUP, (group.number,), key.flow_type, key.name, capacity)
        return group

    def _require_stream(self, key: StreamKey, group: _Group, unit: Unit) -> _Stream:
        stream = self._enter(key)
        if stream.number == 0:
            self._last_stream += 1
            stream.number = group.numbers[key.flow_id] = self._last_stream
            unit.put(Table.STREAM, (stream.number,), group.number, key.flow_id)
        return stream

    @contextlib.contextmanager
    def _using(self, key: StreamKey) -> Generator[_Stream]:
        stream = self._enter(key)
        try:
            yield stream
        finally:
            self._leave(stream)

    def _enter(self, key: StreamKey) -> _Stream:
        """Return a stream; it stays in use until it is left again."""
        stream = self._streams.get(key)
        if stream is None:
            group = self._groups.get(key[:2])
            number = 0 if group is None else group.numbers.get(key.flow_id, 0)
            # Number 0 until the first message: somebody reads a stream that nobody has written yet. Of one
            # that is not in use, the database has every message.
            stream = self._streams[key] = _Stream(key, number, self._last_sequence + 1 if number else 1)
        stream.users += 1
        return stream

    def _leave(self, stream: _Stream) -> None:
        stream.users -= 1
        self._drop_if_unused(stream)

    def _drop_if_unused(self, stream: _Stream) -> None:
        if not stream.users and not stream.tail:
            self._streams.pop(stream.key, None)


def _read_sequence(message: StreamMessageRow) -> int:
    return message.sequence


def _parse_token(token: str, field: str) -> int:
    if not token.isdecimal() or not token.isascii() or len(token) > 18:
        raise invalid_argument(field, "is not a token of this stream")
    return int(token)
