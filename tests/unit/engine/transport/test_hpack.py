from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.engine.transport.hpack import MAX_LIST_BYTES, HeaderDecoder, encode_headers
from dex_agents.engine.transport.huffman import decode_huffman

# RFC 7541, appendix C.3 and C.4: the same three requests, plain and with the Huffman code.
REQUESTS = [
    [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")],
    [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"www.example.com"),
        (b"cache-control", b"no-cache"),
    ],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        (b":authority", b"www.example.com"),
        (b"custom-key", b"custom-value"),
    ],
]
PLAIN = [
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
]
HUFFMAN = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]


@pytest.mark.parametrize("blocks", [PLAIN, HUFFMAN], ids=["plain", "huffman"])
def test_the_blocks_of_one_connection_share_a_table(blocks: list[str]) -> None:
    decoder = HeaderDecoder()
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == REQUESTS


def test_a_field_that_does_not_fit_the_table_empties_it() -> None:
    decoder = HeaderDecoder()
    decoder.decode(bytes.fromhex(PLAIN[0]))
    large = b"x" * 5000
    # A literal with indexing and a new name, its value of 5,000 bytes.
    decoder.decode(b"\x40\x01a\x7f\x89\x26" + large)
    with pytest.raises(ValueError, match="names the field 62"):
        decoder.decode(b"\xbe")


def test_a_peer_may_shrink_the_table_but_not_let_it_grow() -> None:
    decoder = HeaderDecoder()
    decoder.decode(bytes.fromhex(PLAIN[0]))
    assert decoder.decode(b"\x20") == []
    with pytest.raises(ValueError, match="names the field 62"):
        decoder.decode(b"\xbe")
    with pytest.raises(ValueError, match="resized"):
        HeaderDecoder().decode(b"\x3f\xe2\x1f")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (b"\x80", "names the field 0"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x0f", "too large"),
        (b"\x00\x05ab", "in the middle of a string"),
        (b"\x00", "in the middle of a field"),
        (b"\x00\x81\x00\x00", "padded"),
    ],
)
def test_a_malformed_block_is_refused(block: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        HeaderDecoder().decode(block)


def test_few_bytes_cannot_become_a_long_list() -> None:
    decoder = HeaderDecoder()
    # 4,000 bytes of value fit the table once.
    decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000)
    with pytest.raises(ValueError, match=f"longer than {MAX_LIST_BYTES} bytes"):
        decoder.decode(b"\xbe" * 100)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)), max_size=5))
def test_what_is_written_is_read_back(headers: list[tuple[bytes, bytes]]) -> None:
    assert HeaderDecoder().decode(encode_headers(headers)) == headers


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(block: bytes) -> None:
    headers: list[tuple[bytes, bytes]] = []
    with contextlib.suppress(ValueError):
        headers = HeaderDecoder().decode(block)
    assert sum(len(name) + len(value) for name, value in headers) <= MAX_LIST_BYTES


@given(st.binary(max_size=50))
def test_any_bytes_are_a_huffman_string_or_refused(encoded: bytes) -> None:
    decoded = b""
    with contextlib.suppress(ValueError):
        decoded = decode_huffman(encoded)
    # The shortest code has five bits.
    assert len(decoded) <= len(encoded) * 8 // 5
