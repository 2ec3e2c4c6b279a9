"""The search expression: text to tree.

::

    query      = [ expression ] [ "ORDER BY" key [ "ASC" | "DESC" ] ]
    expression = conjunction { "OR" conjunction }
    conjunction= negation { "AND" negation }
    negation   = "NOT" negation | "(" expression ")" | condition
    condition  = key ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) literal
               | key [ "NOT" ] "IN" "(" literal { "," literal } ")"
               | key [ "NOT" ] "BETWEEN" literal "AND" literal
               | key [ "NOT" ] "STARTS_WITH" literal
               | key "IS" [ "NOT" ] "NULL"
    literal    = 'text' | "text" | number | "true" | "false"

Keywords are case-insensitive, keys are not; a key in backquotes may hold any character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal as OneOf

from dex_agents.engine.failures import ServiceError, invalid_argument

MAX_QUERY_CHARACTERS = 8192
MAX_CONDITIONS = 200
MAX_DEPTH = 50

Literal = str | int | float | bool
Operator = OneOf["=", "<", "<=", ">", ">=", "IN", "BETWEEN", "STARTS_WITH", "IS NULL"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A key compared with literals; `!=`, `NOT IN` and so on are a `Not` around one."""

    key: str
    operator: Operator
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Expression


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Some part holds."""

    parts: tuple[Expression, ...]


Expression = Condition | Not | All | Any


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query.

    Attributes:
        expression: What to find, or `None` for everything.
        order_key: The key to order by, or `None` for the default.
        is_descending: Largest first.
    """

    expression: Expression | None
    order_key: str | None = None
    is_descending: bool = True


@dataclass(frozen=True, slots=True)
class _Token:
    kind: OneOf["word", "key", "text", "number", "symbol", "end"]
    text: str
    position: int


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>[A-Za-z_][A-Za-z0-9_.:-]*)
      | `(?P<key>[^`]+)`
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<symbol><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_COMPARISONS: dict[str, Operator] = {"=": "=", "==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse_query(text: str) -> Query:
    """Parse a search expression.

    Raises:
        ServiceError: The text does not follow the grammar; the failure says where.
    """
    if len(text) > MAX_QUERY_CHARACTERS:
        raise invalid_argument(
            "query", f"{len(text)} characters are above the limit of {MAX_QUERY_CHARACTERS}"
        )
    return _Parser(_split(text)).parse()


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            rest = text[position:].lstrip()
            raise _problem(f"unexpected {rest[:1]!r}", len(text) - len(rest))
        start, position = found.start(found.lastgroup or 0), found.end()
        if (word := found["word"]) is not None:
            tokens.append(_Token("word", word, start))
        elif (key := found["key"]) is not None:
            tokens.append(_Token("key", key, start))
        elif (number := found["number"]) is not None:
            tokens.append(_Token("number", number, start))
        elif (quoted := found["text"]) is not None:
            quote = quoted[0]
            tokens.append(_Token("text", _ESCAPE.sub(r"\1", quoted[1:-1].replace(quote * 2, quote)), start))
        else:
            tokens.append(_Token("symbol", found["symbol"], start))
    tokens.append(_Token("end", "", end))
    return tokens


def _problem(what: str, position: int) -> ServiceError:
    return invalid_argument("query", f"{what} at character {position + 1}")


def _read_number(text: str) -> int | float:
    try:
        number = int(text)
    except ValueError:
        return float(text)
    # Beyond 64 bits the database compares floating-point numbers.
    return number if -(2**63) <= number < 2**63 else float(number)


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        self._conditions = 0

    def parse(self) -> Query:
        expression = None
        if self._peek().kind != "end" and not self._is_word("ORDER"):
            expression = self._expression()
        query = Query(expression)
        if self._take_word("ORDER"):
            self._require_word("BY")
            key = self._key()
            is_descending = self._take_word("DESC")
            if not is_descending:
                self._take_word("ASC")
            query = Query(expression, key, is_descending)
        token = self._peek()
        if token.kind != "end":
            raise _problem(f"unexpected {token.text!r}", token.position)
        return query

    def _expression(self) -> Expression:
        parts = [self._conjunction()]
        while self._take_word("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def _conjunction(self) -> Expression:
        parts = [self._negation()]
        while self._take_word("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _negation(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _problem(f"more than {MAX_DEPTH} nested parts", self._peek().position)
        try:
            if self._take_word("NOT"):
                return Not(self._negation())
            if self._take_symbol("("):
                inner = self._expression()
                self._require_symbol(")")
                return inner
            return self._condition()
        finally:
            self._depth -= 1

    def _condition(self) -> Expression:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _problem(f"more than {MAX_CONDITIONS} conditions", self._peek().position)
        key = self._key()
        if self._take_word("IS"):
            is_negated = self._take_word("NOT")
            self._require_word("NULL")
            return self._build(key, "IS NULL", (), is_negated)
        is_negated = self._take_word("NOT")
        if self._take_word("IN"):
            self._require_symbol("(")
            literals = [self._literal()]
            while self._take_symbol(","):
                literals.append(self._literal())
            self._require_symbol(")")
            return self._build(key, "IN", tuple(literals), is_negated)
        if self._take_word("BETWEEN"):
            low = self._literal()
            self._require_word("AND")
            return self._build(key, "BETWEEN", (low, self._literal()), is_negated)
        if self._take_word("STARTS_WITH"):
            return self._build(key, "STARTS_WITH", (self._literal(),), is_negated)
        token = self._next()
        if is_negated or token.kind != "symbol":
            raise _problem(f"an operator is expected after {key!r}", token.position)
        if token.text in {"!=", "<>"}:
            return Not(Condition(key, "=", (self._literal(),)))
        operator = _COMPARISONS.get(token.text)
        if operator is None:
            raise _problem(f"unexpected {token.text!r}", token.position)
        return Condition(key, operator, (self._literal(),))

    def _build(
        self, key: str, operator: Operator, literals: tuple[Literal, ...], is_negated: bool
    ) -> Expression:
        condition = Condition(key, operator, literals)
        return Not(condition) if is_negated else condition

    def _key(self) -> str:
        token = self._next()
        if token.kind not in {"word", "key"}:
            raise _problem("a key is expected", token.position)
        return token.text

    def _literal(self) -> Literal:
        token = self._next()
        if token.kind == "text":
            return token.text
        if token.kind == "number":
            return _read_number(token.text)
        if token.kind == "word" and token.text.lower() in {"true", "false"}:
            return token.text.lower() == "true"
        raise _problem("a quoted text, a number, true or false is expected", token.position)

    def _peek(self) -> _Token:
        return self._tokens[self._index]

    def _next(self) -> _Token:
        token = self._tokens[self._index]
        if token.kind != "end":
            self._index += 1
        return token

    def _is_word(self, word: str) -> bool:
        token = self._peek()
        return token.kind == "word" and token.text.upper() == word

    def _take_word(self, word: str) -> bool:
        if self._is_word(word):
            self._index += 1
            return True
        return False

    def _require_word(self, word: str) -> None:
        if not self._take_word(word):
            raise _problem(f"{word} is expected", self._peek().position)

    def _take_symbol(self, symbol: str) -> bool:
        token = self._peek()
        if token.kind == "symbol" and token.text == symbol:
            self._index += 1
            return True
        return False

    def _require_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise _problem(f"{symbol!r} is expected", self._peek().position)
