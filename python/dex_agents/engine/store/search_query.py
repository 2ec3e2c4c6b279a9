"""Compiles a search expression to one parameterised statement over the state tables."""

# ruff: noqa: S608 - names in statements are constants of this room, values are parameters

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument
from dex_agents.engine.index_values import parse_instant, split_words
from dex_agents.engine.search_grammar import All, Any, Condition, Expression, Literal, Not, Query

Parameter = str | int | float | None

_TEXT_COLUMNS = {
    "FlowType": "r.flow_type",
    "FlowId": "r.flow_id",
    "WorkflowId": "r.flow_id",
    "RunId": "r.run_id",
}
_TIME_COLUMNS = {"StartTime": "r.started_at", "CloseTime": "r.closed_at"}
_STATUSES = {
    "running": pb.FLOW_STATUS_RUNNING,
    "completed": pb.FLOW_STATUS_COMPLETED,
    "failed": pb.FLOW_STATUS_FAILED,
    "terminated": pb.FLOW_STATUS_TERMINATED,
    "canceled": pb.FLOW_STATUS_CANCELED,
    "cancelled": pb.FLOW_STATUS_CANCELED,
    "continuedasnew": pb.FLOW_STATUS_CONTINUED_AS_NEW,
    "timedout": pb.FLOW_STATUS_SERVER_SIDE_TIMEOUT_INTERNAL_ONLY,
}
_ORDERED_TYPES = {
    int(pb.INDEX_TYPE_KEYWORD),
    int(pb.INDEX_TYPE_INT),
    int(pb.INDEX_TYPE_DOUBLE),
    int(pb.INDEX_TYPE_BOOL),
    int(pb.INDEX_TYPE_DATETIME),
}


class SearchStatement:
    """One page of a search.

    Attributes:
        text: The statement; it selects seven columns of a run, then the value it is ordered by.
        parameters: What its question marks stand for.
    """

    def __init__(self, query: Query, index_types: Mapping[str, int]) -> None:
        """Compile a query.

        Raises:
            ServiceError: A key is unknown, or a literal or operator does not fit its key.
        """
        self._index_types = index_types
        self.parameters: list[Parameter] = []
        order = self._order(query)
        where = "1" if query.expression is None else self._expression(query.expression)
        self._is_descending = query.is_descending
        self._select = (
            "SELECT r.run, r.flow_id, r.run_id, r.flow_type, r.status, r.started_at, r.closed_at,"
            f" {order} AS position FROM run r WHERE {where}"
        )
        self._after = ""
        self.text = ""

    def limit(self, rows: int, after: tuple[Parameter, int] | None) -> SearchStatement:
        """Restrict the statement to a page.

        Args:
            rows: Most rows to select.
            after: Order value and number of the last run of the page before, or `None` for the first page.
        """
        direction = "DESC" if self._is_descending else "ASC"
        text = self._select
        if after is not None:
            value, number = after
            beyond = "<" if self._is_descending else ">"
            if value is None:
                # SQLite puts missing values first in ascending order and last in descending order.
                rest = "0" if self._is_descending else "position IS NOT NULL"
                text += f" AND ((position IS NULL AND r.run {beyond} ?) OR {rest})"
                self.parameters.append(number)
            else:
                rest = " OR position IS NULL" if self._is_descending else ""
                text += f" AND (position {beyond} ? OR (position = ? AND r.run {beyond} ?){rest})"
                self.parameters += [value, value, number]
        self.text = f"{text} ORDER BY position {direction}, r.run {direction} LIMIT ?"
        self.parameters.append(rows)
        return self

    def _order(self, query: Query) -> str:
        key = query.order_key
        if key is None:
            return "r.started_at"
        column = _TEXT_COLUMNS.get(key) or _TIME_COLUMNS.get(key)
        if column is not None:
            return column
        if key == "ExecutionStatus":
            return "r.status"
        if self._index_types.get(key) not in _ORDERED_TYPES:
            raise invalid_argument("query", f"cannot order by {key!r}")
        self.parameters.append(key)
        return "(SELECT o.content FROM index_value o WHERE o.run = r.run AND o.key = ? AND o.position = 0)"

    def _expression(self, expression: Expression) -> str:
        match expression:
            case Condition():
                return self._condition(expression)
            case Not(part):
                # A missing value makes SQL answer NULL; the negation of "does not match" is a plain yes.
                return f"NOT coalesce({self._expression(part)}, 0)"
            case All(parts):
                return f"({' AND '.join([self._expression(part) for part in parts])})"
            case Any(parts):
                return f"({' OR '.join([self._expression(part) for part in parts])})"
            case _:
                assert_never(expression)

    def _condition(self, condition: Condition) -> str:
        key = condition.key
        if key in _TEXT_COLUMNS:
            return self._compare(
                _TEXT_COLUMNS[key], condition, [_text(key, each) for each in condition.literals]
            )
        if key in _TIME_COLUMNS:
            instants: list[Parameter] = [_instant(key, each) for each in condition.literals]
            return self._compare(_TIME_COLUMNS[key], condition, instants, is_text=False)
        if key == "ExecutionStatus":
            if condition.operator not in {"=", "IN"}:
                raise invalid_argument("query", "ExecutionStatus can only be compared with = , != and IN")
            return self._compare("r.status", condition, [_status(each) for each in condition.literals])
        if key == "ActiveStepTypes":
            return self._active_steps(condition)
        index_type = self._index_types.get(key)
        if index_type is None:
            raise invalid_argument("query", f"no search key is named {key!r}")
        return self._index(condition, index_type)

    def _active_steps(self, condition: Condition) -> str:
        visible = (
            "EXISTS (SELECT 1 FROM step s WHERE s.run = r.run AND (r.search_mode = ?"
            " OR (s.has_wait AND r.search_mode <> ?)) AND {})"
        )
        self.parameters += [
            int(pb.ACTIVE_STEP_SEARCH_MODE_ENABLED_FOR_ALL),
            int(pb.ACTIVE_STEP_SEARCH_MODE_DISABLED),
        ]
        if condition.operator == "IS NULL":
            return f"NOT {visible.format('1')}"
        literals: list[Parameter] = [_text(condition.key, each) for each in condition.literals]
        return visible.format(self._compare("s.step_type", condition, literals))

    def _index(self, condition: Condition, index_type: int) -> str:
        key = condition.key
        exists = "EXISTS (SELECT 1 FROM index_value i WHERE i.run = r.run AND i.key = ? AND {})"
        if condition.operator == "IS NULL":
            self.parameters.append(key)
            return f"NOT {exists.format('1')}"
        if index_type == pb.INDEX_TYPE_TEXT and condition.operator in {"=", "IN"}:
            return self._words(condition, exists)
        literals: list[Parameter] = [_convert(key, index_type, each) for each in condition.literals]
        if index_type == pb.INDEX_TYPE_TEXT:
            literals = [str(each).lower() for each in literals]
        self.parameters.append(key)
        is_text = index_type in {
            pb.INDEX_TYPE_KEYWORD,
            pb.INDEX_TYPE_KEYWORD_ARRAY,
            pb.INDEX_TYPE_TEXT,
        }
        return exists.format(self._compare("i.content", condition, literals, is_text=is_text))

    def _words(self, condition: Condition, exists: str) -> str:
        choices: list[str] = []
        for literal in condition.literals:
            words = split_words(_text(condition.key, literal))
            if not words:
                raise invalid_argument("query", f"the text compared with {condition.key!r} holds no word")
            for word in words:
                self.parameters += [condition.key, word]
            choices.append(" AND ".join([exists.format("i.content = ?")] * len(words)))
        return "(" + " OR ".join(f"({choice})" for choice in choices) + ")"

    def _compare(
        self, column: str, condition: Condition, literals: list[Parameter], *, is_text: bool = True
    ) -> str:
        match condition.operator:
            case "=" | "<" | "<=" | ">" | ">=":
                self.parameters += literals
                return f"{column} {condition.operator} ?"
            case "IN":
                self.parameters += literals
                return f"{column} IN ({', '.join('?' * len(literals))})"
            case "BETWEEN":
                self.parameters += literals
                return f"{column} BETWEEN ? AND ?"
            case "STARTS_WITH":
                if not is_text:
                    raise invalid_argument("query", f"{condition.key!r} has no text to start with")
                self.parameters += [literals[0], literals[0]]
                return f"substr({column}, 1, length(?)) = ?"
            case "IS NULL":
                return f"{column} IS NULL"
            case _:
                assert_never(condition.operator)


def _text(key: str, literal: Literal) -> str:
    if not isinstance(literal, str):
        raise invalid_argument("query", f"{key!r} is compared with a quoted text")
    return literal


def _instant(key: str, literal: Literal) -> float:
    instant = parse_instant(literal) if isinstance(literal, str) else None
    if instant is None:
        raise invalid_argument("query", f"{key!r} is compared with a quoted RFC 3339 time")
    return instant


def _status(literal: Literal) -> int:
    status = _STATUSES.get(literal.lower().replace("_", "")) if isinstance(literal, str) else None
    if status is None:
        raise invalid_argument("query", f"no execution status is named {literal!r}")
    return int(status)


def _convert(key: str, index_type: int, literal: Literal) -> Parameter:
    match index_type:
        case pb.INDEX_TYPE_INT | pb.INDEX_TYPE_DOUBLE:
            if isinstance(literal, str | bool):
                raise invalid_argument("query", f"{key!r} is compared with a number")
            return literal
        case pb.INDEX_TYPE_BOOL:
            if not isinstance(literal, bool):
                raise invalid_argument("query", f"{key!r} is compared with true or false")
            return int(literal)
        case pb.INDEX_TYPE_DATETIME:
            return _instant(key, literal)
        case _:
            return _text(key, literal)
