"""Random values made in microseconds, for properties that are held for a hundred thousand of them.

Hypothesis takes milliseconds to make a value, and makes a small one of one that fails; what is here only
names the case. So each property of a native capability has both.
"""

from __future__ import annotations

import random
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final, NamedTuple

from hypothesis import settings

from tests.sample_images import IMAGE_BUILDERS

__all__ = ["TELLING_BYTES", "Chance", "cases"]

_CASES: Final = {"fast": 300, "thorough": 100_000}

_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F)))
_TELLING: Final = (
    '"\\/\x00\x08\t\n\v\f\r\x1c\x1d\x1e\x1f \x7f\x80\x84\x85\x86\xa0\xff\u0100\u07ff\u0800\u2027\u2028\u2029'
    "\u202a\ud7ff\ud800\udbff\udc00\udfff\ud83d\ude00\ue000\ufeff\ufffd\uffff\U00010000\U0001f600\U0010ffff"
)
_SCRIPTS: Final = ("éßłżñ", "жіключ", "你您的订单", "か仮カ", "한글", "אבג", "हिन्दी", "😀🎉")
_LENGTHS: Final = (0, 1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70)

TELLING_BYTES: Final = bytes(
    [0x00, 0x01, 0x02, 0x08, 0x21, 0x2C, 0x3B, 0x7F, 0x80, 0xC0, 0xC4, 0xD9, 0xDA, 0xDC, 0xFE, 0xFF]
)
"""Bytes that mean something somewhere in an image: markers, lengths, block codes."""


def cases() -> Iterator[Chance]:
    """Yield a source of chance for each case, which its number alone decides."""
    for number in range(_CASES[settings.get_current_profile_name()]):
        yield Chance(number)


class _Number(int):
    def __repr__(self) -> str:
        return "a subclass must not be asked how it looks"


class _Text(str):
    __slots__ = ()


class _Colour(IntEnum):
    RED = 3


class _Pair(NamedTuple):
    first: object
    second: object


class Chance(random.Random):
    """Makes one case.

    Attributes:
        number: Which case; it makes the same one again.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number: Final = number

    def text(self, parts: int = 4) -> str:
        """Runs of every length, of characters of every kind."""
        return "".join(self._run() for _ in range(self.randrange(parts)))

    def _run(self) -> str:
        length = self.choice(_LENGTHS)
        match self.randrange(8):
            case 0 | 1 | 2:
                return "".join(self.choices(_PLAIN, k=length))
            case 3:
                return self.choice(_PLAIN + _TELLING) * length
            case 4:
                return "".join(self.choices(_TELLING, k=length % 8))
            case 5:
                return "".join(self.choices(self.choice(_SCRIPTS) + " ", k=length))
            case 6:
                return "".join(map(chr, self.randbytes(length)))
            case _:
                return "".join(chr(self.randrange(0x110000)) for _ in range(length % 8))

    def float(self) -> float:
        """Any bits, hundredths, and those where two shortest spellings are equally near."""
        match self.randrange(4):
            case 0:
                return struct.unpack("<d", self.randbytes(8))[0]
            case 1:
                return self.randrange(-(10**6), 10**6) / 100
            case 2:
                return self.randrange(2**49, 2**50) + self.choice((0.25, 0.5, 0.75))
            case _:
                return self.choice((0.0, -0.0, 1e-5, 1e-4, 1e16, 1e22, float("nan"), float("inf"), 5e-324))

    def integer(self) -> int:
        """Small ones, and those around a power of two."""
        if self.randrange(2):
            return self.randrange(-1000, 1000)
        return self.choice((1, -1)) * (2 ** self.randrange(140) + self.randrange(-1, 2))

    def leaf(self) -> Any:
        """A plain value that holds no other."""
        match self.randrange(6):
            case 0:
                return self.choice((None, True, False))
            case 1:
                return self.integer()
            case 2:
                return self.float()
            case _:
                return self.text(3)

    def odd_leaf(self) -> Any:
        """A plain value, or one of a type that is none of JSON's own."""
        if self.randrange(4):
            return self.leaf()
        odd = (_Number(self.integer()), _Text(self.text(2)), _Colour.RED, b"bytes", Decimal("1.5"), 1j)
        return self.choice(odd)

    def odd_key(self) -> Any:
        """A key of a dict that `json.dumps` may or may not take."""
        if self.randrange(3):
            return self.text(2)
        odd = (None, True, False, self.integer(), self.float(), _Text("k"), _Colour.RED, b"k", (1, 2))
        return self.choice(odd)

    def plain_value(self, depth: int = 3) -> Any:
        """A value of exact types, with keys that are text."""
        kind = self.randrange(5 if depth else 1)
        if kind == 0:
            return self.leaf()
        items = [self.plain_value(depth - 1) for _ in range(self.randrange(4))]
        match kind:
            case 1:
                return items
            case 2:
                return tuple(items)
            case _:
                return {self.text(2): item for item in items}

    def odd_value(self, depth: int = 3) -> Any:
        """A value with parts that JSON has not."""
        kind = self.randrange(5 if depth else 1)
        if kind == 0:
            return self.odd_leaf()
        items = [self.odd_value(depth - 1) for _ in range(self.randrange(4))]
        match kind:
            case 1:
                return items
            case 2:
                return _Pair(items, None)
            case 3:
                return OrderedDict((self.text(2), item) for item in items)
            case _:
                return {self.odd_key(): item for item in items}

    def image(self) -> bytes:
        """A whole image, in most cases changed here and there."""
        coded = bytes(self.choices(TELLING_BYTES, k=self.choice(_LENGTHS)))
        image = bytearray(IMAGE_BUILDERS[self.choice(sorted(IMAGE_BUILDERS))](coded))
        for _ in range(self.randrange(5)):
            at = self.randrange(len(image) + 1)
            match self.randrange(8):
                case 0:
                    del image[at:]
                case 1:
                    image[at:at] = bytes(self.choices(TELLING_BYTES, k=self.randrange(1, 16)))
                case 2:
                    del image[at : at + self.randrange(1, 16)]
                case 3:
                    image[4:8] = max(len(image) - 8, 0).to_bytes(4, "little")
                case 4:
                    image += b"\xff\xd9"
                case _:
                    image[at : at + 1] = bytes(
                        [self.choice((self.randrange(256), self.choice(TELLING_BYTES)))]
                    )
        return bytes(image)

    def tokens(self, tokens: Sequence[str], most: int) -> str:
        """Text of some of the tokens."""
        return "".join(self.choices(tokens, k=self.randrange(most)))
