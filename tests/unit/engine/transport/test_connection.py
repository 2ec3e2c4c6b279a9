from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dex_agents.engine.transport import connection
from dex_agents.engine.transport.connection import (
    CONNECTION_WINDOW_BYTES,
    RECEIVED_FRAME_BYTES,
)
from dex_agents.engine.transport.frames import (
    END_HEADERS,
    END_STREAM,
    PADDED,
    PREFACE,
    PRIORITY,
    ErrorCode,
    FrameType,
    Setting,
    build_frame,
    build_reset,
    build_settings,
    build_window_update,
)
from dex_agents.engine.transport.hpack import encode_headers
from dex_agents.engine.transport.http2_stream import STREAM_WINDOW_BYTES
from tests.unit.engine.transport.peer import BOUND, open_room

ANSWER = "/test.Service/Answer"
ECHO = "/test.Service/Echo"
HEADERS = encode_headers(
    [(b":method", b"POST"), (b":path", ECHO.encode()), (b"content-type", b"application/grpc")]
)
DATA, GRPC = FrameType.DATA, b"\x00\x00\x00\x00\x05hello"


async def test_frames_may_arrive_byte_by_byte(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect(greet=False) as peer:
        sent = (
            PREFACE
            + build_settings({})
            + build_frame(FrameType.HEADERS, END_HEADERS, 1, HEADERS)
            + build_frame(DATA, END_STREAM, 1, GRPC)
        )
        for byte in sent:
            peer.send(bytes((byte,)))
            await peer.writer.drain()
        await peer.read()
        assert (await peer.read())[3] == GRPC
        assert (await peer.read_status(1))[b"grpc-status"] == b"0"


async def test_padding_priority_and_continuations_are_understood(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.send(
            build_frame(FrameType.HEADERS, PADDED | PRIORITY, 1, b"\x03" + bytes(5) + HEADERS[:20] + bytes(3))
            + build_frame(FrameType.CONTINUATION, 0, 1, HEADERS[20:30])
            + build_frame(FrameType.CONTINUATION, END_HEADERS, 1, HEADERS[30:])
            + build_frame(FrameType.PRIORITY, 0, 1, bytes(5))
            + build_frame(200, 0, 1, b"an unknown frame")
            + build_frame(DATA, PADDED | END_STREAM, 1, b"\x02" + GRPC + bytes(2))
        )
        await peer.read()
        assert (await peer.read())[3] == GRPC
        assert (await peer.read_status(1))[b"grpc-status"] == b"0"
        assert room.notes.events == ["receive", "end"]


async def test_a_stream_given_up_is_canceled_and_others_go_on(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.call(1, ECHO)
        peer.call(3, ECHO)
        peer.send(build_reset(1, ErrorCode.CANCEL))
        peer.message(1, b"late")
        peer.message(3, b"hello", end=True)
        assert (await peer.read_status(3))[b"grpc-status"] == b"0"
        assert room.notes.events == ["cancel", "receive", "end"]


async def test_a_lost_connection_cancels_its_streams_and_an_orderly_end_does_not(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        async with room.connect() as peer:
            peer.call(1, ECHO, end=True)
            await peer.read_status(1)
            peer.call(3, ECHO)
            await peer.ping()
            assert room.notes.events == ["end"]
        async with asyncio.timeout(BOUND):
            await room.notes.canceled.wait()
        assert room.notes.events == ["end", "cancel"]


async def test_what_the_peer_has_no_room_for_waits(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect(greet=False) as peer:
        peer.send(PREFACE + build_settings({Setting.INITIAL_WINDOW_SIZE: 10}))
        peer.call(1, ECHO)
        peer.message(1, b"x" * 20, end=True)
        await peer.read()
        assert len((await peer.read())[3]) == 10
        peer.send(build_window_update(1, 5))
        assert len((await peer.read())[3]) == 5
        # The window of streams that are open already changes with the setting.
        peer.send(build_settings({Setting.INITIAL_WINDOW_SIZE: 20}))
        assert len((await peer.read())[3]) == 10
        assert (await peer.read_status(1))[b"grpc-status"] == b"0"


async def test_the_window_of_the_connection_is_shared(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect(greet=False) as peer:
        peer.send(PREFACE + build_settings({Setting.INITIAL_WINDOW_SIZE: 1 << 20}))
        peer.call(1, ECHO)
        for _ in range(2):
            peer.message(1, b"x" * 50_000)
        received = 0
        while received < 65_535:
            kind, _, _, payload = await peer.read()
            received += len(payload) if kind == DATA else 0
        await peer.ping()
        assert received == 65_535
        peer.send(build_window_update(0, 1 << 20))
        while received < 100_010:
            received += len((await peer.read())[3])
        assert received == 100_010


@pytest.mark.parametrize(
    ("frames", "code", "problem"),
    [
        (build_frame(DATA, 0, 1, b"x"), ErrorCode.PROTOCOL_ERROR, "data belongs to a stream"),
        (build_frame(DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR, "data belongs to a stream"),
        (
            build_frame(FrameType.HEADERS, END_HEADERS, 2, HEADERS),
            ErrorCode.PROTOCOL_ERROR,
            "a client's stream must have an odd number",
        ),
        (
            build_frame(FrameType.HEADERS, 0, 1, HEADERS) + build_frame(FrameType.PING, 0, 0, bytes(8)),
            ErrorCode.PROTOCOL_ERROR,
            "a header block was interrupted",
        ),
        (
            build_frame(FrameType.HEADERS, 0, 1, HEADERS) + build_frame(DATA, 0, 1, b"x"),
            ErrorCode.PROTOCOL_ERROR,
            "a header block was interrupted",
        ),
        (
            build_frame(FrameType.CONTINUATION, END_HEADERS, 1, HEADERS),
            ErrorCode.PROTOCOL_ERROR,
            "a CONTINUATION frame continues nothing",
        ),
        (
            build_frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff"),
            ErrorCode.COMPRESSION_ERROR,
            "a header block ends in the middle of a field",
        ),
        (
            build_frame(FrameType.HEADERS, 0, 1, bytes(60_000))
            + build_frame(FrameType.CONTINUATION, 0, 1, bytes(60_000)),
            ErrorCode.ENHANCE_YOUR_CALM,
            "a header block is too large",
        ),
        (
            build_frame(FrameType.HEADERS, END_HEADERS | PADDED, 1, b"\x09short"),
            ErrorCode.PROTOCOL_ERROR,
            "the padding of a frame is longer than the frame",
        ),
        (
            build_frame(FrameType.HEADERS, END_HEADERS, 1, HEADERS) * 2,
            ErrorCode.PROTOCOL_ERROR,
            "a second header block must end its stream",
        ),
        (
            build_frame(FrameType.HEADERS, END_HEADERS, 1, HEADERS)
            + build_frame(DATA, END_STREAM, 1, b"\x00")
            + build_frame(FrameType.WINDOW_UPDATE, 0, 0, bytes(4)),
            ErrorCode.PROTOCOL_ERROR,
            "a WINDOW_UPDATE frame is malformed",
        ),
        (
            build_window_update(0, (1 << 31) - 1),
            ErrorCode.FLOW_CONTROL_ERROR,
            "the window is too large",
        ),
        (
            build_frame(FrameType.PING, 0, 0, b"short"),
            ErrorCode.FRAME_SIZE_ERROR,
            "a PING frame is malformed",
        ),
        (
            build_frame(FrameType.SETTINGS, 0, 0, b"short"),
            ErrorCode.FRAME_SIZE_ERROR,
            "a SETTINGS frame has no whole number of parameters",
        ),
        (
            build_settings({Setting.MAX_FRAME_SIZE: 1}),
            ErrorCode.PROTOCOL_ERROR,
            "the size of frames is out of range",
        ),
        (
            build_settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31}),
            ErrorCode.FLOW_CONTROL_ERROR,
            "the window of streams is too large",
        ),
        (build_reset(1, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR, "a RST_STREAM frame is malformed"),
        (build_frame(FrameType.PUSH_PROMISE, 0, 1), ErrorCode.PROTOCOL_ERROR, "a client must not push"),
        (
            (RECEIVED_FRAME_BYTES + 1).to_bytes(3, "big") + bytes(6),
            ErrorCode.FRAME_SIZE_ERROR,
            f"a frame of {RECEIVED_FRAME_BYTES + 1} bytes is too large",
        ),
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_told_why_and_cut_off(
    tmp_path: Path, frames: bytes, code: ErrorCode, problem: str
) -> None:
    async with open_room(tmp_path) as room:
        async with room.connect() as peer:
            peer.send(frames)
            while True:
                kind, _, _, payload = await peer.read()
                if kind == FrameType.GOAWAY:
                    break
            assert (int.from_bytes(payload[4:8], "big"), payload[8:].decode()) == (code, problem)
        async with room.connect() as other:
            await other.ping()


async def test_a_peer_that_does_not_speak_http2_is_cut_off(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect(greet=False) as peer:
        peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        code, problem = await peer.read_goaway()
        assert (code, problem) == (ErrorCode.PROTOCOL_ERROR, "the peer does not speak HTTP/2")


async def test_a_peer_cannot_send_more_than_the_windows_allow(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.call(1, ECHO)
        # A whole message of one stream may be as large as many windows, since each is opened again in time.
        size = 3 * STREAM_WINDOW_BYTES
        assert size < CONNECTION_WINDOW_BYTES
        payload = b"\x00" + size.to_bytes(4, "big") + bytes(size)
        for start in range(0, len(payload), RECEIVED_FRAME_BYTES):
            peer.send(build_frame(DATA, 0, 1, payload[start : start + RECEIVED_FRAME_BYTES]))
            await peer.writer.drain()
        while True:
            kind, _, _, _ = await peer.read()
            if kind == DATA:
                break
        assert room.notes.events == ["receive"]


@pytest.mark.requirement("engine-strangers")
async def test_a_peer_that_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        await peer.ping()
        (pinged,) = room.listener.connections
        flood = asyncio.create_task(_flood(peer.writer))
        async with asyncio.timeout(BOUND):
            while not pinged.is_paused:
                await asyncio.sleep(0)
        async with room.connect() as other:
            await other.ping()
        assert pinged.is_paused
        assert not flood.done()
        flood.cancel()


async def _flood(writer: asyncio.StreamWriter) -> None:
    pings = build_frame(FrameType.PING, 0, 0, bytes(8)) * 50_000
    while True:
        writer.write(pings)
        await writer.drain()


async def test_streams_beyond_the_limit_are_refused_and_the_others_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_STREAMS", 3)
    async with open_room(tmp_path) as room, room.connect() as peer:
        for number in (1, 3, 5, 7, 9):
            peer.call(number, ECHO)
        refused = [await peer.read(), await peer.read()]
        assert [(kind, number) for kind, _, number, _ in refused] == [
            (FrameType.RST_STREAM, 7),
            (FrameType.RST_STREAM, 9),
        ]
        assert len(room.listener.calls) == 3
        peer.message(1, b"hello", end=True)
        assert (await peer.read_status(1))[b"grpc-status"] == b"0"
        peer.call(11, ECHO, end=True)
        assert (await peer.read_status(11))[b"grpc-status"] == b"0"


@pytest.mark.requirement("engine-strangers")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    noise=st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.builds(
                build_frame,
                st.integers(0, 11),
                st.integers(0, 255),
                st.integers(0, 6),
                st.one_of(st.binary(max_size=40), st.just(HEADERS), st.just(GRPC)),
            ),
        ),
        max_size=12,
    )
)
def test_noise_never_harms_the_listener(tmp_path: Path, noise: list[bytes]) -> None:
    async def play() -> None:
        async with open_room(tmp_path) as room:
            async with room.connect() as peer:
                peer.send(b"".join(noise))
                peer.writer.write_eof()
                await peer.read_rest()
            async with room.connect() as other:
                other.call(1, ANSWER)
                other.message(1, b"hello", end=True)
                assert (await other.read_status(1))[b"grpc-status"] == b"0"

    asyncio.run(play())
