"""The streams of an HTTP/2 connection: what each may send, and who owns it."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from dex_agents.engine.transport.frames import (
    END_HEADERS,
    END_STREAM,
    ErrorCode,
    FrameType,
    ProtocolError,
    build_frame,
    build_window_update,
)

STREAM_WINDOW_BYTES = 1024 * 1024
"""What a peer may send on one stream before it is told that there is room again."""


class StreamOwner(Protocol):
    """What a stream is for. Every method is called on the event loop and returns at once."""

    def receive_data(self, data: bytes) -> None:
        """Take bytes that the peer sent."""
        ...

    def receive_end(self) -> None:
        """The peer has said everything; it still listens."""
        ...

    def receive_reset(self) -> None:
        """The stream is gone: the peer gave it up, or its connection was lost."""
        ...


class StreamCarrier(Protocol):
    """The connection, as its streams see it.

    Attributes:
        window: Bytes that may be sent on all streams together.
        frame_bytes: Largest payload that the peer takes.
    """

    window: int
    frame_bytes: int

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def note_blocked(self, stream: Http2Stream) -> None:
        """Go on with a stream when the peer has room."""
        ...

    def note_sent_all(self, stream: Http2Stream) -> None:
        """Forget a stream whose last frame was sent."""
        ...


class Http2Stream:
    """One stream, as its owner sees it. What is sent on a stream that is gone is dropped."""

    __slots__ = ("_connection", "_is_over", "_pending", "_received", "_trailers", "number", "owner", "window")

    def __init__(self, connection: StreamCarrier, number: int, window: int) -> None:
        self._connection = connection
        self._pending: deque[bytes] = deque()
        self._trailers: bytes | None = None
        self._received = 0
        self._is_over = False
        self.number = number
        self.owner: StreamOwner | None = None
        self.window = window

    def send_headers(self, block: bytes) -> None:
        """Send the first headers."""
        if not self._is_over:
            self._connection.write(build_frame(FrameType.HEADERS, END_HEADERS, self.number, block))

    def send_data(self, data: bytes) -> None:
        """Send bytes, as soon as the peer has room for them."""
        if self._is_over or self._trailers is not None:
            return
        self._pending.append(data)
        if len(self._pending) == 1:
            self.flush()

    def send_trailers(self, block: bytes) -> None:
        """Send the last headers behind all data; the stream is over for this side."""
        if not self._is_over and self._trailers is None:
            self._trailers = block
            if not self._pending:
                self.flush()

    def flush(self) -> None:
        """Send what the windows of the peer allow."""
        connection, pending = self._connection, self._pending
        while pending:
            data = pending[0]
            size = len(data)
            room = min(self.window, connection.window, connection.frame_bytes)
            if size > room:
                if room <= 0:
                    connection.note_blocked(self)
                    return
                pending[0] = data[room:]
                data, size = data[:room], room
            else:
                pending.popleft()
            self.window -= size
            connection.window -= size
            connection.write(build_frame(FrameType.DATA, 0, self.number, data))
        if self._trailers is not None:
            self._is_over = True
            connection.write(
                build_frame(FrameType.HEADERS, END_HEADERS | END_STREAM, self.number, self._trailers)
            )
            connection.note_sent_all(self)

    def note_received(self, size: int) -> None:
        """Account for bytes that arrived, and let the peer send more."""
        self._received += size
        if self._received > STREAM_WINDOW_BYTES:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "a stream received more than its window")
        if self._received >= STREAM_WINDOW_BYTES // 2:
            self._connection.write(build_window_update(self.number, self._received))
            self._received = 0

    def drop(self) -> None:
        """Forget what was not sent: the stream is gone."""
        self._is_over = True
        self._pending.clear()
