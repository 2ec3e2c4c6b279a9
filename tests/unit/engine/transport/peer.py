"""A listener with two methods, and a client that writes frames by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from dex_agents.engine.address import parse_address
from dex_agents.engine.transport.calls import Call, CallHandler, UnaryCall
from dex_agents.engine.transport.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PREFACE,
    FrameType,
    build_frame,
    build_settings,
    parse_header,
)
from dex_agents.engine.transport.hpack import Header, HeaderDecoder, encode_headers
from dex_agents.engine.transport.listener import Listener

BOUND = 30.0


class Notes:
    """What the methods saw.

    Attributes:
        events: `receive`, `end` and `cancel`, in order.
        canceled: Set with every `cancel`.
        gate: What the unary method waits for after the message `wait`.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.canceled = asyncio.Event()
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()


class Echo:
    """Sends every message back."""

    def __init__(self, notes: Notes, call: Call) -> None:
        self._notes = notes
        self._call = call

    def receive(self, message: bytes) -> None:
        self._notes.events.append("receive")
        self._call.send(message)

    def end(self) -> None:
        self._notes.events.append("end")
        self._call.finish()

    def cancel(self) -> None:
        self._notes.events.append("cancel")
        self._notes.canceled.set()


@dataclass
class Room:
    listener: Listener
    path: Path
    notes: Notes

    @property
    def target(self) -> str:
        return f"unix:{self.path}"

    @contextlib.asynccontextmanager
    async def connect(self, *, greet: bool = True) -> AsyncGenerator[Peer]:
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        peer = Peer(reader, writer)
        if greet:
            peer.send(PREFACE + build_settings({}))
        try:
            yield peer
        finally:
            writer.transport.abort()


class Peer:
    """One connection, frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = HeaderDecoder()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def call(self, stream: int, path: str, *more: Header, end: bool = False) -> None:
        headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b"content-type", b"application/grpc"),
            *more,
        ]
        flags = END_HEADERS | (END_STREAM if end else 0)
        self.send(build_frame(FrameType.HEADERS, flags, stream, encode_headers(headers)))

    def message(self, stream: int, message: bytes, *, end: bool = False) -> None:
        payload = b"\x00" + len(message).to_bytes(4, "big") + message
        self.send(build_frame(FrameType.DATA, END_STREAM if end else 0, stream, payload))

    async def read(self) -> tuple[int, int, int, bytes]:
        """Return type, flags, stream and payload of the next frame but for SETTINGS and WINDOW_UPDATE."""
        while True:
            size, kind, flags, stream = parse_header(await self._read(9), 0)
            payload = await self._read(size)
            if kind not in {FrameType.SETTINGS, FrameType.WINDOW_UPDATE}:
                return kind, flags, stream, payload

    async def read_status(self, stream: int) -> dict[bytes, bytes]:
        """Return the headers that end a stream."""
        while True:
            kind, flags, number, payload = await self.read()
            if kind == FrameType.HEADERS and number == stream:
                headers = dict(self._decoder.decode(payload))
                if flags & END_STREAM:
                    return headers

    async def read_goaway(self) -> tuple[int, str]:
        """Return code and reason of the frame that ends the connection, and see it end."""
        kind, _, _, payload = await self.read()
        assert kind == FrameType.GOAWAY
        async with asyncio.timeout(BOUND):
            assert await self._reader.read() == b""
        return int.from_bytes(payload[4:8], "big"), payload[8:].decode()

    async def ping(self, payload: bytes = b"12345678") -> None:
        """Return once everything sent before was handled."""
        self.send(build_frame(FrameType.PING, 0, 0, payload))
        while True:
            kind, flags, _, answered = await self.read()
            if kind == FrameType.PING and flags & ACK and answered == payload:
                return

    async def read_rest(self) -> bytes:
        """Return whatever comes until the listener ends the connection."""
        async with asyncio.timeout(BOUND):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def _read(self, size: int) -> bytes:
        async with asyncio.timeout(BOUND):
            return await self._reader.readexactly(size)


@contextlib.asynccontextmanager
async def open_room(folder: Path, token: str | None = None) -> AsyncGenerator[Room]:
    notes = Notes()

    async def answer(message: bytes) -> bytes:
        if message == b"fail":
            raise LookupError("not for the client")
        if message == b"wait":
            notes.entered.set()
            try:
                await notes.gate.wait()
            except asyncio.CancelledError:
                notes.canceled.set()
                raise
        return message

    def open_unary(call: Call) -> CallHandler:
        return UnaryCall(call, answer)

    def open_echo(call: Call) -> CallHandler:
        return Echo(notes, call)

    listener = Listener({"/test.Service/Answer": open_unary, "/test.Service/Echo": open_echo}, token)
    path = folder / "listener.sock"
    await listener.listen(parse_address(f"unix:{path}"))
    try:
        yield Room(listener, path, notes)
    finally:
        await listener.stop(0.05)
