"""Header compression (RFC 7541): reading what clients send, and writing without a table.

What the engine writes is a handful of short fields, so it spells them out and keeps no state for that
direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dex_agents.engine.transport.huffman import decode_huffman

Header = tuple[bytes, bytes]

TABLE_BYTES = 4096
"""The size of the dynamic table that HTTP/2 grants a peer from the start; it is never raised here."""

MAX_LIST_BYTES = 64 * 1024
"""Largest header list. A few bytes may name a large field again and again, so it is the result that
counts."""

FIELD_OVERHEAD_BYTES = 32
"""What a field counts in a table or a list beside its name and value."""

_STATIC: tuple[Header, ...] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    *((b":status", code) for code in (b"200", b"204", b"206", b"304", b"400", b"404", b"500")),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *(
        (name, b"")
        for name in (
            b"accept-language accept-ranges accept access-control-allow-origin age allow authorization"
            b" cache-control content-disposition content-encoding content-language content-length"
            b" content-location content-range content-type cookie date etag expect expires from host if-match"
            b" if-modified-since if-none-match if-range if-unmodified-since last-modified link location"
            b" max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server"
            b" set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    ),
)
_LONGEST_INTEGER_SHIFT = 28


class HeaderDecoder:
    """Reads the header blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._dynamic: deque[Header] = deque()
        self._dynamic_bytes = 0
        self._limit = TABLE_BYTES

    def decode(self, block: bytes) -> list[Header]:
        """Read one header block.

        Raises:
            ValueError: The block is malformed or its list is too long. The table cannot be trusted after
                that, so the connection has to end.
        """
        headers: list[Header] = []
        list_bytes = position = 0
        try:
            while position < len(block):
                first = block[position]
                if first & 0x80:
                    index, position = _read_integer(block, position, 0x7F)
                    header = self._find(index)
                elif first & 0xE0 == 0x20:
                    limit, position = _read_integer(block, position, 0x1F)
                    if limit > TABLE_BYTES or headers:
                        raise ValueError("a header table is resized where it must not be")
                    self._limit = limit
                    self._evict(0)
                    continue
                else:
                    is_indexed = bool(first & 0x40)
                    index, position = _read_integer(block, position, 0x3F if is_indexed else 0x0F)
                    if index:
                        name = self._find(index)[0]
                    else:
                        name, position = _read_string(block, position)
                    value, position = _read_string(block, position)
                    header = (name, value)
                    if is_indexed:
                        self._add(header)
                list_bytes += _measure(header)
                if list_bytes > MAX_LIST_BYTES:
                    raise ValueError(f"a header list is longer than {MAX_LIST_BYTES} bytes")
                headers.append(header)
        except IndexError:
            raise ValueError("a header block ends in the middle of a field") from None
        return headers

    def _find(self, index: int) -> Header:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        if 0 < index <= len(_STATIC) + len(self._dynamic):
            return self._dynamic[index - len(_STATIC) - 1]
        raise ValueError(f"a header block names the field {index}, which does not exist")

    def _add(self, header: Header) -> None:
        size = _measure(header)
        self._evict(size)
        if size <= self._limit:
            self._dynamic.appendleft(header)
            self._dynamic_bytes += size

    def _evict(self, coming: int) -> None:
        while self._dynamic and self._dynamic_bytes + coming > self._limit:
            self._dynamic_bytes -= _measure(self._dynamic.pop())


def encode_headers(headers: Iterable[Header]) -> bytes:
    """Spell fields so that a peer reads them without any table; names must be lower-case."""
    return b"".join(
        b"\x00" + _spell_integer(len(name), 0x7F) + name + _spell_integer(len(value), 0x7F) + value
        for name, value in headers
    )


def _measure(header: Header) -> int:
    return len(header[0]) + len(header[1]) + FIELD_OVERHEAD_BYTES


def _read_integer(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    value = block[position] & prefix
    position += 1
    if value < prefix:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
        if shift > _LONGEST_INTEGER_SHIFT:
            raise ValueError("a header block holds a number that is too large")


def _read_string(block: bytes, position: int) -> tuple[bytes, int]:
    is_huffman = bool(block[position] & 0x80)
    length, position = _read_integer(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise ValueError("a header block ends in the middle of a string")
    text = block[position:end]
    return decode_huffman(text) if is_huffman else text, end


def _spell_integer(value: int, prefix: int) -> bytes:
    if value < prefix:
        return bytes((value,))
    spelled = bytearray((prefix,))
    value -= prefix
    while value >= 0x80:
        spelled.append(value & 0x7F | 0x80)
        value >>= 7
    spelled.append(value)
    return bytes(spelled)
