"""What `read_json_object` must answer: the grammar of JSON, read one character after the other.

A place in a text is the number of characters before it. Whatever is wrong there is raised at once, so that
the first problem of a text is the one that is told.
"""

from __future__ import annotations

import math
from typing import Any, Never

from dex_agents.builtin_loop.json_values import is_json_object
from dex_agents.codecs.json_text import JsonProblem, JsonProblemKind, ReadJsonObject

_BLANKS = " \t\n\r"
_DIGITS = "0123456789"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}
_NUMBERS_OF_PYTHON = ("NaN", "Infinity", "-Infinity")
_MAX_INTEGER_DIGITS = 4300


class _ProblemError(Exception):
    def __init__(self, kind: JsonProblemKind, place: int, key: str | None = None) -> None:
        super().__init__(kind, place)
        self.kind: JsonProblemKind = kind
        self.place = place
        self.key = key


class _Reader:
    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.place = 0
        self.max_depth = max_depth
        self.healed = False

    def next(self) -> str:
        """The next character, or nothing at the end."""
        return self.text[self.place : self.place + 1]

    def take(self, allowed: str) -> str:
        character = self.next()
        if not character or character not in allowed:
            self.stop()
        self.place += 1
        return character

    def stop(self) -> Never:
        raise _ProblemError("not_json" if self.next() else "cut_off", self.place)

    def skip_blanks(self) -> None:
        while self.next() and self.next() in _BLANKS:
            self.place += 1

    def read_whole(self) -> dict[str, Any]:
        self.skip_blanks()
        place = self.place
        value = self.read_value(0)
        self.skip_blanks()
        if self.next():
            self.stop()
        if not is_json_object(value):
            raise _ProblemError("not_an_object", place)
        return value

    def read_value(self, depth: int) -> Any:
        if self.text.startswith(_NUMBERS_OF_PYTHON, self.place):
            raise _ProblemError("number_out_of_range", self.place)
        match self.next():
            case "{" | "[" if depth == self.max_depth:
                raise _ProblemError("too_deep", self.place)
            case "{":
                return self.read_object(depth + 1)
            case "[":
                return self.read_array(depth + 1)
            case '"':
                return self.read_string()
            case "t" | "f" | "n":
                return self.read_word()
            case _:
                return self.read_number()

    def read_object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.take("{")
        self.skip_blanks()
        if self.next() == "}":
            self.place += 1
            return members
        while True:
            self.skip_blanks()
            place = self.place
            key = self.read_string()
            self.skip_blanks()
            self.take(":")
            if key in members:
                raise _ProblemError("repeated_key", place, key)
            self.skip_blanks()
            members[key] = self.read_value(depth)
            self.skip_blanks()
            if self.take(",}") == "}":
                return members

    def read_array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.take("[")
        self.skip_blanks()
        if self.next() == "]":
            self.place += 1
            return items
        while True:
            self.skip_blanks()
            items.append(self.read_value(depth))
            self.skip_blanks()
            if self.take(",]") == "]":
                return items

    def read_string(self) -> str:
        self.take('"')
        units: list[str] = []
        while self.next() != '"':
            if self.next() < " ":
                self.stop()
            if self.next() != "\\":
                units.append(self.next())
                self.place += 1
                continue
            self.place += 1
            escape = self.take("".join(_ESCAPES) + "u")
            units.append(
                chr(int("".join(self.take(_HEX_DIGITS) for _ in range(4)), 16))
                if escape == "u"
                else _ESCAPES[escape]
            )
        self.place += 1
        # UTF-16 joins the two halves of a pair, and only what is left alone is lone.
        paired = "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        healed = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in paired)
        self.healed = self.healed or healed != paired
        return healed

    def read_word(self) -> bool | None:
        (word,) = (word for word in _WORDS if word[0] == self.next())
        for letter in word:
            self.take(letter)
        return _WORDS[word]

    def read_number(self) -> int | float:
        start = self.place
        if self.next() == "-":
            self.place += 1
        whole = self.take(_DIGITS)
        if whole != "0":
            whole += self.take_digits()
        if len(whole) > _MAX_INTEGER_DIGITS:
            raise _ProblemError("number_out_of_range", start)
        is_integer = True
        if self.next() == ".":
            is_integer = False
            self.place += 1
            self.take(_DIGITS)
            self.take_digits()
        if self.next() and self.next() in "eE":
            is_integer = False
            self.place += 1
            if self.next() and self.next() in "+-":
                self.place += 1
            self.take(_DIGITS)
            self.take_digits()
        literal = self.text[start : self.place]
        if is_integer:
            return int(literal)
        if math.isinf(float(literal)):
            raise _ProblemError("number_out_of_range", start)
        return float(literal)

    def take_digits(self) -> str:
        start = self.place
        while self.next() and self.next() in _DIGITS:
            self.place += 1
        return self.text[start : self.place]


def oracle_read(text: str, *, max_depth: int) -> ReadJsonObject | JsonProblem:
    """Read an object, or find the first problem of a text."""
    reader = _Reader(text, max_depth)
    try:
        value = reader.read_whole()
    except _ProblemError as problem:
        lines = text[: problem.place].split("\n")
        return JsonProblem(problem.kind, len(lines), len(lines[-1]) + 1, problem.key)
    return ReadJsonObject(value, reader.healed)
