"""The Huffman code of header strings (RFC 7541, appendix B).

The code is canonical: the lengths alone determine it. Symbols of one length get consecutive codes in rising
order, and the first code of a length continues where the shorter ones ended.
"""

from __future__ import annotations

_LENGTHS = (
    *(13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28),
    *(28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28),
    *(6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6),
    *(5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10),
    *(13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7),
    *(7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6),
    *(15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5),
    *(6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28),
    *(20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23),
    *(24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24),
    *(22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23),
    *(21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23),
    *(26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25),
    *(19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27),
    *(20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23),
    *(26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26),
    30,
)
_END = 256
"""The symbol that must not occur; a string is padded with the first bits of its code, which are ones."""

_LONGEST_PADDING = 7


def _build_symbols() -> dict[int, int]:
    """Return symbols by their code behind a leading one, which keeps the zeros in front of it apart."""
    symbols: dict[int, int] = {}
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda each: (_LENGTHS[each], each)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        symbols[1 << length | code] = symbol
        code += 1
    return symbols


_SYMBOLS = _build_symbols()
_LONGEST_CODE = 1 << max(_LENGTHS)


def decode_huffman(encoded: bytes) -> bytes:
    """Decode a header string.

    Raises:
        ValueError: It holds the end symbol, or is not padded as it must be.
    """
    decoded = bytearray()
    code = 1
    for byte in encoded:
        for shift in range(7, -1, -1):
            code = code << 1 | (byte >> shift & 1)
            symbol = _SYMBOLS.get(code)
            if symbol is not None:
                if symbol == _END:
                    raise ValueError("a header string holds the end symbol")
                decoded.append(symbol)
                code = 1
            elif code >= _LONGEST_CODE:
                raise ValueError("a header string is not a Huffman code")
    padding = code.bit_length() - 1
    if padding > _LONGEST_PADDING or code != (1 << padding + 1) - 1:
        raise ValueError("a header string is not padded with ones")
    return bytes(decoded)
