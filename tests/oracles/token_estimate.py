"""What `token_estimate` must count, one character at a time and as slowly as it is plain."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping
from typing import Final

RANGES: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "latin": ((0xC0, 0xFF),),
    "latin_extended": ((0x100, 0x24F),),
    "vietnamese": ((0x1E00, 0x1EFF),),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "cyrillic": ((0x410, 0x44F),),
    "cyrillic_extended": ((0x400, 0x40F), (0x450, 0x52F)),
    "hebrew": ((0x590, 0x5FF),),
    "arabic": ((0x600, 0x6FF), (0x750, 0x77F)),
    "devanagari": ((0x900, 0x97F),),
    "bengali": ((0x980, 0x9FF),),
    "thai": ((0xE00, 0xE7F),),
    "han": ((0x3400, 0x9FFF), (0xF900, 0xFAFF)),
    "kana": ((0x3040, 0x30FF),),
    "hangul": ((0xAC00, 0xD7AF),),
    "wide_punctuation": ((0x3000, 0x303F), (0xFF00, 0xFFEF)),
    "symbols": ((0x80, 0xBF), (0x2000, 0x2BFF), (0x2E00, 0x2E7F), (0xFE00, 0xFE0F)),
    "emoji": ((0x1F000, 0x1FAFF),),
}
"""Classes beyond ASCII by the first and last code points of their ranges; what is in none is `other`."""

ASCII_LETTERS: Final = {"lowercase", "rare_lowercase", "uppercase"}
LETTERS: Final = ASCII_LETTERS | {
    "latin",
    "latin_extended",
    "vietnamese",
    "greek",
    "cyrillic",
    "cyrillic_extended",
    "hebrew",
    "arabic",
    "devanagari",
    "bengali",
    "thai",
}


def class_of(character: str) -> str:
    if character.isascii():
        if character in "jkqxz":
            return "rare_lowercase"
        if character in string.ascii_lowercase:
            return "lowercase"
        if character in string.ascii_uppercase:
            return "uppercase"
        if character in string.digits:
            return "digits"
        if character in " \t":
            return "blanks"
        if character in "\r\n":
            return "newlines"
        return "punctuation" if character in string.punctuation else "controls"
    code = ord(character)
    for name, ranges in RANGES.items():
        if any(first <= code <= last for first, last in ranges):
            return name
    return "other"


def event_of(before: str | None, current: str) -> str | None:
    if current in LETTERS:
        if before == "digits":
            return "letters_after_digits"
        if before not in LETTERS:
            return "word_starts"
        if before in ASCII_LETTERS and current not in ASCII_LETTERS:
            return "accents_in_words"
    elif current == "digits" and before != "digits":
        return "digit_starts"
    elif current == "punctuation" and before == "blanks":
        return "punctuation_after_blanks"
    elif current == "punctuation" and before != "punctuation":
        return "punctuation_starts"
    return None


def count_features(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    before: str | None = None
    for character in text:
        current = class_of(character)
        counts[current] += 1
        event = event_of(before, current)
        if event is not None:
            counts[event] += 1
        before = current
    return counts


def weigh_text(text: str, weights: Mapping[str, int]) -> int:
    return sum(count * weights[name] for name, count in count_features(text).items())
