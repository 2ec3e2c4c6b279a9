"""One HTTP/2 connection of a client (RFC 9113): frames in, frames out, flow control between.

=====================  ==================================================================================
a peer that            finds
=====================  ==================================================================================
breaks the protocol    its connection ended, with the reason in a GOAWAY frame
does not read          that it is not read from either, until it does
opens many streams     the surplus refused, beyond `MAX_STREAMS`
is silent              a PING after `KEEPALIVE_SECONDS`, and without an answer its connection closed
=====================  ==================================================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from dex_agents.engine.transport.frames import (
    ACK,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW_BYTES,
    END_HEADERS,
    END_STREAM,
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    MAX_WINDOW_BYTES,
    PREFACE,
    PRIORITY,
    ErrorCode,
    FrameType,
    ProtocolError,
    Setting,
    build_frame,
    build_goaway,
    build_reset,
    build_settings,
    build_window_update,
    parse_header,
    parse_settings,
    strip_padding,
)
from dex_agents.engine.transport.hpack import MAX_LIST_BYTES, Header, HeaderDecoder
from dex_agents.engine.transport.http2_stream import STREAM_WINDOW_BYTES, Http2Stream, StreamOwner

KEEPALIVE_SECONDS = 20.0
"""Silence after which a peer is asked whether it is there: one whose machine is gone does not even end."""

MAX_STREAMS = 32_768
"""Streams that a connection may have at a time. Every long poll is one, so the limit is only for floods."""

MAX_BLOCK_BYTES = 64 * 1024
"""Largest header block, over all its frames."""

CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024

RECEIVED_FRAME_BYTES = 256 * 1024
"""Largest frame that is taken. Larger frames mean less work for each byte of a large message."""

WRITE_BUFFER_BYTES = 4 * 1024 * 1024
"""Unsent bytes above which a peer is not read from."""

_PRIORITY_BYTES = 5
_LOGGER = logging.getLogger(__name__)


class Http2Connection(asyncio.Protocol):
    """The server's side of one connection.

    Attributes:
        window: Bytes that may be sent on all streams together.
        frame_bytes: Largest payload that the peer takes.
        is_paused: The peer does not read, so it is not read from either.
    """

    def __init__(
        self,
        open_stream: Callable[[Http2Stream, list[Header]], StreamOwner | None],
        on_lost: Callable[[Http2Connection], None],
    ) -> None:
        """Prepare a connection; the event loop makes it.

        Args:
            open_stream: Returns the owner of a new stream, or `None` if it has answered already.
            on_lost: Called once when the connection is gone.
        """
        self.window = DEFAULT_WINDOW_BYTES
        self.frame_bytes = DEFAULT_FRAME_BYTES
        self.is_paused = False
        self._open_stream = open_stream
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Http2Stream] = {}
        self._blocked: dict[Http2Stream, None] = {}
        self._half_closed: set[int] = set()
        self._last_stream = 0
        self._stream_window = DEFAULT_WINDOW_BYTES
        self._received = 0
        self._decoder = HeaderDecoder()
        self._block: tuple[int, int, bytearray] | None = None
        self._buffer = bytearray()
        self._preface_left = PREFACE
        self._has_settings = False
        self._is_ending = False
        self._output: list[bytes] = []
        self._is_flush_due = False
        self._is_reading = False
        self._has_heard = True
        self._is_asked = False
        self._keepalive: asyncio.TimerHandle | None = None

    @property
    def streams(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the peer."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        settings = {
            Setting.ENABLE_PUSH: 0,
            Setting.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            Setting.MAX_FRAME_SIZE: RECEIVED_FRAME_BYTES,
            Setting.MAX_HEADER_LIST_SIZE: MAX_LIST_BYTES,
        }
        self.write(build_settings(settings))
        self.write(build_window_update(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES))
        self._keepalive = self._loop.call_later(KEEPALIVE_SECONDS, self._look_for_life)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owners of all streams."""
        self._is_ending = True
        self._transport = None
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None
        self._output.clear()
        streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.drop()
            if stream.owner is not None:
                stream.owner.receive_reset()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The peer does not read: let it not make this side write more."""
        self.is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.is_paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Handle every whole frame, then send what that led to in one write."""
        self._has_heard = True
        self._is_reading = True
        try:
            if self._buffer:
                self._buffer += data
                data = bytes(self._buffer)
                self._buffer.clear()
            if self._preface_left:
                data = self._take_preface(data)
            self._take_frames(data)
        except ProtocolError as error:
            _LOGGER.warning("closing a connection: %s", error)
            self._end(error.code, str(error))
        except Exception:
            _LOGGER.exception("closing a connection because of a defect")
            self._end(ErrorCode.INTERNAL_ERROR, "")
        finally:
            self._is_reading = False
            self._flush()

    def write(self, frame: bytes) -> None:
        """Send a frame with the others of this turn of the event loop."""
        self._output.append(frame)
        if not self._is_reading and not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def note_blocked(self, stream: Http2Stream) -> None:
        """Go on with a stream when the peer has room."""
        self._blocked[stream] = None

    def note_sent_all(self, stream: Http2Stream) -> None:
        """Forget a stream whose last frame was sent."""
        if self._streams.pop(stream.number, None) is None:
            return
        if stream.number in self._half_closed:
            self._half_closed.discard(stream.number)
        else:
            # The answer does not depend on what the peer may still want to say.
            self.write(build_reset(stream.number, ErrorCode.NO_ERROR))

    def announce_end(self) -> None:
        """Ask the peer to open no more streams here."""
        if not self._is_ending:
            self._is_ending = True
            self.write(build_goaway(self._last_stream, ErrorCode.NO_ERROR))

    def close(self) -> None:
        """Send what is left and close."""
        self._is_ending = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without sending what is left."""
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._output and self._transport is not None:
            self._transport.write(self._output[0] if len(self._output) == 1 else b"".join(self._output))
        self._output.clear()

    def _end(self, code: ErrorCode, problem: str) -> None:
        self.write(build_goaway(self._last_stream, code, problem))
        self.close()

    def _look_for_life(self) -> None:
        if not self._has_heard and (self._is_asked or self._preface_left):
            self.abort()
            return
        self._is_asked = not self._has_heard
        if self._is_asked:
            self.write(build_frame(FrameType.PING, 0, 0, bytes(8)))
        self._has_heard = False
        self._keepalive = self._loop.call_later(KEEPALIVE_SECONDS, self._look_for_life)

    def _take_preface(self, data: bytes) -> bytes:
        size = min(len(self._preface_left), len(data))
        if data[:size] != self._preface_left[:size]:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the peer does not speak HTTP/2")
        self._preface_left = self._preface_left[size:]
        return data[size:]

    def _take_frames(self, data: bytes) -> None:
        position, end = 0, len(data)
        while end - position >= HEADER_BYTES:
            size, kind, flags, number = parse_header(data, position)
            if size > RECEIVED_FRAME_BYTES:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes is too large")
            start = position + HEADER_BYTES
            if end - start < size:
                break
            position = start + size
            if self._transport is None or self._transport.is_closing():
                return
            if kind == FrameType.DATA and self._block is None:
                self._take_data(number, flags, data[start:position])
            else:
                self._take_other(kind, number, flags, data[start:position])
        if position < end:
            self._buffer += data[position:] if position else data

    def _take_other(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        if self._block is not None and kind != FrameType.CONTINUATION:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a header block was interrupted")
        if not self._has_settings and kind != FrameType.SETTINGS:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        match kind:
            case FrameType.HEADERS:
                payload = strip_padding(payload, flags)
                self._take_block(number, flags, payload[_PRIORITY_BYTES:] if flags & PRIORITY else payload)
            case FrameType.CONTINUATION:
                if self._block is None or self._block[0] != number:
                    raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION frame continues nothing")
                self._take_block(number, self._block[1] | flags & END_HEADERS, payload)
            case FrameType.WINDOW_UPDATE:
                self._take_window(number, payload)
            case FrameType.RST_STREAM:
                self._take_reset(number, payload)
            case FrameType.SETTINGS:
                self._take_settings(number, flags, payload)
            case FrameType.PING:
                if number or len(payload) != 8:
                    raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a PING frame is malformed")
                if not flags & ACK:
                    self.write(build_frame(FrameType.PING, ACK, 0, payload))
            case FrameType.PUSH_PROMISE:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a client must not push")
            case FrameType.DATA:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "data belongs to a stream")
            case _:
                pass

    def _take_data(self, number: int, flags: int, payload: bytes) -> None:
        if not 0 < number <= self._last_stream or not number & 1:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "data belongs to a stream")
        size = len(payload)
        self._received += size
        if self._received > CONNECTION_WINDOW_BYTES:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "more was received than the window allows")
        if self._received >= CONNECTION_WINDOW_BYTES // 2:
            self.write(build_window_update(0, self._received))
            self._received = 0
        stream = self._streams.get(number)
        if stream is None:
            # It was answered or given up while this was on its way.
            return
        if number in self._half_closed:
            raise ProtocolError(ErrorCode.STREAM_CLOSED, "data came behind the end of a stream")
        is_end = bool(flags & END_STREAM)
        if is_end:
            self._half_closed.add(number)
        elif size:
            stream.note_received(size)
        if stream.owner is not None:
            data = strip_padding(payload, flags)
            if data:
                stream.owner.receive_data(data)
            if is_end:
                stream.owner.receive_end()

    def _take_block(self, number: int, flags: int, payload: bytes) -> None:
        if self._block is None:
            self._block = (number, flags, bytearray())
        block = self._block[2]
        block += payload
        if len(block) > MAX_BLOCK_BYTES:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if not flags & END_HEADERS:
            return
        self._block = None
        try:
            headers = self._decoder.decode(bytes(block))
        except ValueError as error:
            raise ProtocolError(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        if not number & 1:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a client's stream must have an odd number")
        if number > self._last_stream:
            self._last_stream = number
            self._take_stream(number, flags, headers)
        elif (stream := self._streams.get(number)) is not None and number not in self._half_closed:
            if not flags & END_STREAM:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a second header block must end its stream")
            self._half_closed.add(number)
            if stream.owner is not None:
                stream.owner.receive_end()

    def _take_stream(self, number: int, flags: int, headers: list[Header]) -> None:
        if len(self._streams) >= MAX_STREAMS or self._is_ending:
            self.write(build_reset(number, ErrorCode.REFUSED_STREAM))
            return
        stream = self._streams[number] = Http2Stream(self, number, self._stream_window)
        if flags & END_STREAM:
            self._half_closed.add(number)
        stream.owner = self._open_stream(stream, headers)
        if flags & END_STREAM and stream.owner is not None:
            stream.owner.receive_end()

    def _take_reset(self, number: int, payload: bytes) -> None:
        if not 0 < number <= self._last_stream or len(payload) != 4:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a RST_STREAM frame is malformed")
        stream = self._streams.pop(number, None)
        self._half_closed.discard(number)
        if stream is not None:
            self._blocked.pop(stream, None)
            stream.drop()
            if stream.owner is not None:
                stream.owner.receive_reset()

    def _take_window(self, number: int, payload: bytes) -> None:
        increment = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if len(payload) != 4 or not increment:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a WINDOW_UPDATE frame is malformed")
        if number:
            stream = self._streams.get(number)
            if stream is None:
                return
            stream.window += increment
            if stream.window > MAX_WINDOW_BYTES:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "the window of a stream is too large")
        else:
            self.window += increment
            if self.window > MAX_WINDOW_BYTES:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        self._unblock()

    def _take_settings(self, number: int, flags: int, payload: bytes) -> None:
        self._has_settings = True
        if number:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a SETTINGS frame belongs to no stream")
        if flags & ACK:
            return
        for key, value in parse_settings(payload):
            if key == Setting.INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW_BYTES:
                    raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "the window of streams is too large")
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
            elif key == Setting.MAX_FRAME_SIZE:
                if not DEFAULT_FRAME_BYTES <= value <= MAX_FRAME_BYTES:
                    raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the size of frames is out of range")
                self.frame_bytes = value
        self.write(build_frame(FrameType.SETTINGS, ACK, 0))
        self._unblock()

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for stream in blocked:
            stream.flush()
