"""HTTP/2 frames (RFC 9113): numbers, limits, and how frames are spelled."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every client."""

HEADER_BYTES = 9
DEFAULT_FRAME_BYTES = 16_384
"""The payload that every peer takes from the start."""

MAX_FRAME_BYTES = (1 << 24) - 1
DEFAULT_WINDOW_BYTES = 65_535
MAX_WINDOW_BYTES = (1 << 31) - 1

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20


class FrameType(IntEnum):
    """What a frame is. Unknown ones are passed over, as the protocol asks."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Parameters of a peer that matter here."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ProtocolError(Exception):
    """A peer broke the protocol, so that its connection has to end.

    Attributes:
        code: What the peer is told.
    """

    def __init__(self, code: ErrorCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code


_HEADER = Struct(">HBBBL")
_SETTING = Struct(">HL")
_GOAWAY = Struct(">LL")


def build_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Spell a frame."""
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def build_settings(settings: dict[Setting, int]) -> bytes:
    """Spell the parameters of this side."""
    return build_frame(
        FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in settings.items())
    )


def build_window_update(stream: int, increment: int) -> bytes:
    """Spell the permission to send more."""
    return build_frame(FrameType.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def build_reset(stream: int, code: ErrorCode) -> bytes:
    """Spell the end of a stream."""
    return build_frame(FrameType.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def build_goaway(last_stream: int, code: ErrorCode, problem: str = "") -> bytes:
    """Spell the end of a connection."""
    return build_frame(FrameType.GOAWAY, 0, 0, _GOAWAY.pack(last_stream, code) + problem.encode())


def parse_header(buffer: bytes | bytearray, position: int) -> tuple[int, int, int, int]:
    """Read payload size, type, flags and stream of the frame at a position."""
    high, low, kind, flags, stream = _HEADER.unpack_from(buffer, position)
    return high << 8 | low, kind, flags, stream & 0x7FFFFFFF


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """Read the parameters of a peer.

    Raises:
        ProtocolError: The payload is not a list of parameters.
    """
    if len(payload) % _SETTING.size:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a SETTINGS frame has no whole number of parameters")
    return list(_SETTING.iter_unpack(payload))


def strip_padding(payload: bytes, flags: int) -> bytes:
    """Return what a DATA or HEADERS payload holds between its padding.

    Raises:
        ProtocolError: The padding is longer than the payload.
    """
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the padding of a frame is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
