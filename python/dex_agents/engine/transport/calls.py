"""gRPC calls on HTTP/2 streams: paths, messages, deadlines and statuses."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from dex_agents.engine.transport.hpack import Header, encode_headers
from dex_agents.engine.transport.http2_stream import Http2Stream

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message that is taken; its length comes first, so a larger one is refused before it is read."""

_PREFIX_BYTES = 5
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT = re.compile(rb"[0-9]{1,8}[HMSmun]")
_MAX_DEADLINE_SECONDS = 24 * 3600.0
_LOGGER = logging.getLogger(__name__)


class StatusCode(IntEnum):
    """How a call ended."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended.

    Attributes:
        code: A gRPC status code.
        message: A sentence for people.
        details: A serialised `google.rpc.Status`, or nothing.
    """

    code: int
    message: str = ""
    details: bytes = b""


class CallFailedError(Exception):
    """Ends a call with a status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class CallHandler(Protocol):
    """What a call does with what arrives. Every method is called on the event loop and returns at once."""

    def receive(self, message: bytes) -> None:
        """Take a message.

        Raises:
            CallFailedError: The call ends with its status.
        """
        ...

    def end(self) -> None:
        """The client has said everything, and waits.

        Raises:
            CallFailedError: The call ends with its status.
        """
        ...

    def cancel(self) -> None:
        """The call is over by no doing of this handler: given up, late, or its client is gone."""
        ...


OpenCall = Callable[["Call"], CallHandler]

_OK = Status(StatusCode.OK)
_RESPONSE = b"\x88" + encode_headers([(b"content-type", b"application/grpc")])
_OK_TRAILERS = encode_headers([(b"grpc-status", b"0")])


class Call:
    """One call, from its headers to its status."""

    __slots__ = ("_buffer", "_deadline", "_handler", "_has_headers", "_is_over", "_on_over", "_stream")

    def __init__(self, stream: Http2Stream, on_over: Callable[[Call], None]) -> None:
        self._stream = stream
        self._on_over = on_over
        self._handler: CallHandler | None = None
        self._buffer = bytearray()
        self._deadline: asyncio.TimerHandle | None = None
        self._has_headers = False
        self._is_over = False

    def open(self, handler: CallHandler, seconds: float | None) -> None:
        """Begin: messages go to the handler; after so many seconds the call is late."""
        self._handler = handler
        if seconds is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire)

    def send(self, message: bytes) -> None:
        """Send a message; one for a call that is over is dropped."""
        if self._is_over:
            return
        if not self._has_headers:
            self._has_headers = True
            self._stream.send_headers(_RESPONSE)
        self._stream.send_data(b"\x00" + len(message).to_bytes(4, "big") + message)

    def finish(self, status: Status = _OK) -> None:
        """End the call with a status, behind the messages sent."""
        if self._is_over:
            return
        self._close()
        trailers = _OK_TRAILERS if status is _OK else _build_trailers(status)
        self._stream.send_trailers(trailers if self._has_headers else _RESPONSE + trailers)

    def interrupt(self, status: Status) -> None:
        """End the call with a status that its handler has not chosen."""
        if not self._is_over:
            self.finish(status)
            if self._handler is not None:
                self._handler.cancel()

    def receive_data(self, data: bytes) -> None:
        """Take bytes and hand on every whole message."""
        buffer = self._buffer
        if not buffer and len(data) >= _PREFIX_BYTES and not data[0]:
            size = int.from_bytes(data[1:_PREFIX_BYTES], "big")
            if size == len(data) - _PREFIX_BYTES and size <= MAX_MESSAGE_BYTES:
                self._hand_on(data[_PREFIX_BYTES:])
                return
        buffer += data
        while len(buffer) >= _PREFIX_BYTES and not self._is_over:
            if buffer[0]:
                self.interrupt(Status(StatusCode.UNIMPLEMENTED, "compressed messages are not taken"))
                return
            size = int.from_bytes(buffer[1:_PREFIX_BYTES], "big")
            if size > MAX_MESSAGE_BYTES:
                self.interrupt(
                    Status(
                        StatusCode.RESOURCE_EXHAUSTED,
                        f"a message of {size} bytes is above the limit of {MAX_MESSAGE_BYTES}",
                    )
                )
                return
            if len(buffer) < _PREFIX_BYTES + size:
                return
            message = bytes(buffer[_PREFIX_BYTES : _PREFIX_BYTES + size])
            del buffer[: _PREFIX_BYTES + size]
            self._hand_on(message)

    def receive_end(self) -> None:
        """Tell the handler that nothing more comes."""
        if self._handler is None or self._is_over:
            return
        if self._buffer:
            self.interrupt(Status(StatusCode.INVALID_ARGUMENT, "the call ends in the middle of a message"))
            return
        try:
            self._handler.end()
        except CallFailedError as error:
            self.finish(error.status)

    def receive_reset(self) -> None:
        """Tell the handler that its client is gone."""
        if not self._is_over:
            self._close()
            if self._handler is not None:
                self._handler.cancel()

    def _hand_on(self, message: bytes) -> None:
        if self._handler is None or self._is_over:
            return
        try:
            self._handler.receive(message)
        except CallFailedError as error:
            self.interrupt(error.status)

    def _expire(self) -> None:
        self.interrupt(Status(StatusCode.DEADLINE_EXCEEDED, "the deadline of the call is over"))

    def _close(self) -> None:
        self._is_over = True
        self._buffer.clear()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._on_over(self)


class UnaryCall:
    """Answers one message with one message, or with a status."""

    __slots__ = ("_answer", "_call", "_message", "_task")

    def __init__(self, call: Call, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._call = call
        self._answer = answer
        self._message: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    def receive(self, message: bytes) -> None:
        """Keep the request; see `CallHandler`."""
        if self._message is not None:
            raise CallFailedError(Status(StatusCode.INVALID_ARGUMENT, "the call takes one message"))
        self._message = message

    def end(self) -> None:
        """Begin to answer; see `CallHandler`."""
        if self._message is None:
            raise CallFailedError(Status(StatusCode.INVALID_ARGUMENT, "the call takes one message"))
        self._task = asyncio.get_running_loop().create_task(self._run(self._message))

    def cancel(self) -> None:
        """Stop answering; see `CallHandler`."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, message: bytes) -> None:
        try:
            answer = await self._answer(message)
        except CallFailedError as error:
            self._call.finish(error.status)
        except Exception:
            _LOGGER.exception("a call failed inside the engine")
            self._call.finish(Status(StatusCode.INTERNAL, "the call failed inside the engine"))
        else:
            self._call.send(answer)
            self._call.finish()


class Calls:
    """Opens the calls of every connection."""

    def __init__(self, methods: Mapping[str, OpenCall], token: str | None = None) -> None:
        """Serve some methods.

        Args:
            methods: What opens a call, by path: `/package.Service/Method`.
            token: What a client must present as `authorization: Bearer TOKEN`, or `None`.
        """
        self._methods = {path.encode(): method for path, method in methods.items()}
        self._token = None if token is None else token.encode()
        self._open: set[Call] = set()
        self._is_idle = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of calls that are not over."""
        return len(self._open)

    def open_stream(self, stream: Http2Stream, headers: list[Header]) -> Call | None:
        """Open the call that a stream carries; one that cannot be served is answered at once."""
        given = dict(headers)
        call = Call(stream, self._note_over)
        problem = self._judge(given)
        if problem is not None:
            call.finish(problem)
            return None
        timeout = given.get(b"grpc-timeout")
        self._open.add(call)
        call.open(self._methods[given[b":path"]](call), None if timeout is None else _parse_timeout(timeout))
        return call

    def add(self, path: str, method: OpenCall) -> None:
        """Serve one more method."""
        self._methods[path.encode()] = method

    async def wait_over(self, seconds: float) -> None:
        """Wait until no call is open, but no longer than so many seconds."""
        if self._open:
            self._is_idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_idle.wait()

    def interrupt(self) -> None:
        """End every call: the engine ends."""
        for call in list(self._open):
            call.interrupt(Status(StatusCode.UNAVAILABLE, "the engine ends"))

    def _note_over(self, call: Call) -> None:
        self._open.discard(call)
        if not self._open:
            self._is_idle.set()

    def _judge(self, given: dict[bytes, bytes]) -> Status | None:
        if given.get(b":method") != b"POST" or not given.get(b"content-type", b"").startswith(
            b"application/grpc"
        ):
            return Status(StatusCode.UNIMPLEMENTED, "only gRPC calls are served")
        if self._token is not None and not _has_token(given.get(b"authorization", b""), self._token):
            return Status(StatusCode.UNAUTHENTICATED, "the bearer token is missing or wrong")
        path = given.get(b":path", b"")
        if path not in self._methods:
            return Status(StatusCode.UNIMPLEMENTED, f"no method has the path {path[:200]!r}")
        timeout = given.get(b"grpc-timeout")
        if timeout is not None and not _TIMEOUT.fullmatch(timeout):
            return Status(StatusCode.INVALID_ARGUMENT, "grpc-timeout is malformed")
        return None


def _has_token(authorization: bytes, token: bytes) -> bool:
    scheme, _, given = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given, token)


def _parse_timeout(timeout: bytes) -> float:
    return min(int(timeout[:-1]) * _UNITS[timeout[-1:]], _MAX_DEADLINE_SECONDS)


def _build_trailers(status: Status) -> bytes:
    headers = [(b"grpc-status", str(int(status.code)).encode())]
    if status.message:
        # Percent-encoded UTF-8; printable ASCII but for the percent sign may stay as it is.
        safe = "".join(chr(code) for code in range(0x20, 0x7F) if code != 0x25)
        headers.append((b"grpc-message", urllib.parse.quote(status.message, safe=safe).encode()))
    if status.details:
        headers.append((b"grpc-status-details-bin", base64.b64encode(status.details)))
    return encode_headers(headers)
