"""Calls through the real gRPC client, which the SDK uses too."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import grpc
import pytest

from dex_agents.engine.address import parse_address
from dex_agents.engine.transport.calls import MAX_MESSAGE_BYTES
from dex_agents.engine.transport.listener import Listener
from tests.unit.engine.transport.peer import BOUND, open_room

ANSWER = "/test.Service/Answer"
ECHO = "/test.Service/Echo"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def answer(channel: grpc.aio.Channel, path: str = ANSWER) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(path)


def echo(channel: grpc.aio.Channel) -> grpc.aio.StreamStreamCall[bytes, bytes]:
    call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(ECHO)
    return call()


async def test_calls_and_streams_are_answered(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target) as channel:
        assert await answer(channel)(b"hello") == b"hello"
        assert await answer(channel)(b"") == b""
        call = echo(channel)
        for number in range(100):
            await call.write(str(number).encode())
            assert await call.read() == str(number).encode()
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_large_messages_pass_both_ways_at_once(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target, UNLIMITED) as channel:
        messages = [bytes((number,)) * 5_000_000 for number in range(6)]
        answers = await asyncio.gather(*(answer(channel)(each) for each in messages))
        assert answers == messages


async def test_many_streams_share_a_connection(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target) as channel:

        async def talk(number: int) -> None:
            call = echo(channel)
            await call.write(str(number).encode())
            assert await call.read() == str(number).encode()
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF

        await asyncio.gather(*(talk(number) for number in range(500)))
        assert len(room.listener.connections) == 1
        assert len(room.listener.calls) == 0


async def test_a_message_above_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.call(1, ANSWER)
        peer.send(b"\x00\x00\x05\x00\x00\x00\x00\x00\x01\x00" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))
        status = await peer.read_status(1)
        assert status[b"grpc-status"] == b"8"
        assert status[b"grpc-message"].decode() == (
            f"a message of {MAX_MESSAGE_BYTES + 1} bytes is above the limit of {MAX_MESSAGE_BYTES}"
        )


@pytest.mark.parametrize(
    ("path", "message", "code", "details"),
    [
        ("/test.Service/Nothing", b"x", grpc.StatusCode.UNIMPLEMENTED, "no method has the path"),
        (ANSWER, b"fail", grpc.StatusCode.INTERNAL, "the call failed inside the engine"),
    ],
)
async def test_a_call_that_cannot_be_served_says_why(
    tmp_path: Path, path: str, message: bytes, code: grpc.StatusCode, details: str
) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match=details) as caught:
            await answer(channel, path)(message)
        assert caught.value.code() is code
        assert "not for the client" not in str(caught.value.details())


async def test_compressed_messages_are_refused(tmp_path: Path) -> None:
    async with (
        open_room(tmp_path) as room,
        grpc.aio.insecure_channel(room.target, compression=grpc.Compression.Gzip) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="compressed") as caught:
            await answer(channel)(b"x" * 1000)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_unary_call_takes_exactly_one_message(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.call(1, ANSWER, end=True)
        peer.call(3, ANSWER)
        peer.message(3, b"one")
        peer.message(3, b"two")
        assert (await peer.read_status(1))[b"grpc-status"] == b"3"
        assert (await peer.read_status(3))[b"grpc-status"] == b"3"
        peer.call(5, ANSWER)
        peer.send(b"\x00\x00\x02\x00\x01\x00\x00\x00\x05\x00\x00")
        assert (await peer.read_status(5))[b"grpc-message"] == b"the call ends in the middle of a message"


async def test_a_call_given_up_stops_its_handler(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target) as channel:
        call = answer(channel)(b"wait")
        async with asyncio.timeout(BOUND):
            await room.notes.entered.wait()
            call.cancel()
            await room.notes.canceled.wait()
        assert len(room.listener.calls) == 0


async def test_a_deadline_stops_the_handler_whatever_the_client_does(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, room.connect() as peer:
        peer.call(1, ANSWER, (b"grpc-timeout", b"20m"))
        peer.message(1, b"wait", end=True)
        assert (await peer.read_status(1))[b"grpc-status"] == b"4"
        async with asyncio.timeout(BOUND):
            await room.notes.canceled.wait()
        peer.call(3, ANSWER, (b"grpc-timeout", b"soon"))
        assert (await peer.read_status(3))[b"grpc-message"] == b"grpc-timeout is malformed"


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("Bearer secret", grpc.StatusCode.OK),
        ("bearer secret", grpc.StatusCode.OK),
        ("Bearer other", grpc.StatusCode.UNAUTHENTICATED),
        ("secret", grpc.StatusCode.UNAUTHENTICATED),
        (None, grpc.StatusCode.UNAUTHENTICATED),
    ],
)
async def test_a_token_is_asked_for_when_there_is_one(
    tmp_path: Path, authorization: str | None, code: grpc.StatusCode
) -> None:
    async with open_room(tmp_path, "secret") as room, grpc.aio.insecure_channel(room.target) as channel:
        metadata = None if authorization is None else (("authorization", authorization),)
        call = answer(channel)(b"hello", metadata=metadata)
        assert await call.code() is code


async def test_stopping_lets_short_calls_end_and_ends_long_ones(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room, grpc.aio.insecure_channel(room.target) as channel:
        long = echo(channel)
        await long.write(b"hello")
        await long.read()
        short = answer(channel)(b"wait")
        async with asyncio.timeout(BOUND):
            await room.notes.entered.wait()
            stopping = asyncio.create_task(room.listener.stop(0.5))
            room.notes.gate.set()
            assert await short == b"wait"
            assert await long.code() is grpc.StatusCode.UNAVAILABLE
            await stopping
        assert not room.path.exists()


@pytest.mark.requirement("engine-private")
async def test_only_the_owner_may_connect_to_a_socket(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        assert stat.S_IMODE(room.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_tcp_port_is_chosen_and_not_shared(host: str) -> None:
    first, second = Listener({}), Listener({})
    port = await first.listen(parse_address(f"{host}:0"))
    try:
        async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="no method has the path"):
                await answer(channel)(b"")
        with pytest.raises(OSError, match="in use"):
            await second.listen(parse_address(f"{host}:{port}"))
    finally:
        await first.stop(0.05)
        await second.stop(0.05)
