from __future__ import annotations

import pytest

from dex_agents.engine.failures import ServiceError
from dex_agents.engine.search_grammar import All, Any, Condition, Expression, Not, Query, parse_query


def equal(key: str, literal: str | float | bool) -> Condition:
    return Condition(key, "=", (literal,))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("", None),
        ("   ", None),
        ('FlowType = "Session"', equal("FlowType", "Session")),
        ("FlowType='Session'", equal("FlowType", "Session")),
        ("a = 1", equal("a", 1)),
        ("a == -1.5", equal("a", -1.5)),
        ("a = 2e3", equal("a", 2000.0)),
        ("a = 9223372036854775807", equal("a", 2**63 - 1)),
        ("a = 9223372036854775808", equal("a", float(2**63))),
        ("a = true", equal("a", True)),
        ("a = FALSE", equal("a", False)),
        ("`odd key!` = 'x'", equal("odd key!", "x")),
        ("a = 'it''s'", equal("a", "it's")),
        (r'a = "say \"hi\" \\"', equal("a", 'say "hi" \\')),
        ("a = ''", equal("a", "")),
        ("a != 1", Not(equal("a", 1))),
        ("a <> 1", Not(equal("a", 1))),
        ("a <= 1", Condition("a", "<=", (1,))),
        ("a IN ('x', 'y')", Condition("a", "IN", ("x", "y"))),
        ("a not in (1)", Not(Condition("a", "IN", (1,)))),
        ("a BETWEEN 1 AND 2 AND b = 3", All((Condition("a", "BETWEEN", (1, 2)), equal("b", 3)))),
        ("a STARTS_WITH 'x'", Condition("a", "STARTS_WITH", ("x",))),
        ("a IS NULL", Condition("a", "IS NULL", ())),
        ("a IS NOT NULL", Not(Condition("a", "IS NULL", ()))),
        ("a = 1 AND b = 2 OR c = 3", Any((All((equal("a", 1), equal("b", 2))), equal("c", 3)))),
        ("a = 1 AND (b = 2 OR c = 3)", All((equal("a", 1), Any((equal("b", 2), equal("c", 3)))))),
        ("NOT a = 1 AND b = 2", All((Not(equal("a", 1)), equal("b", 2)))),
        ("NOT NOT (a = 1)", Not(Not(equal("a", 1)))),
        ("a = ' AND b = '", equal("a", " AND b = ")),
    ],
)
def test_an_expression_is_parsed(text: str, expression: Expression | None) -> None:
    assert parse_query(text) == Query(expression)


@pytest.mark.parametrize(
    ("text", "key", "is_descending"),
    [
        ("ORDER BY StartTime", "StartTime", False),
        ("order by StartTime asc", "StartTime", False),
        ("ORDER BY StartTime DESC", "StartTime", True),
    ],
)
def test_an_order_may_stand_alone(text: str, key: str, is_descending: bool) -> None:
    assert parse_query(text) == Query(None, key, is_descending)


def test_an_order_may_follow_an_expression() -> None:
    assert parse_query("a = 1 ORDER BY b DESC") == Query(equal("a", 1), "b", True)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", 2),
        ("a =", 4),
        ("a = b", 5),
        ("= 1", 1),
        ("a = 1 b = 2", 7),
        ("(a = 1", 7),
        ("a = 1)", 6),
        ("a IN ()", 7),
        ("a IN (1", 8),
        ("a BETWEEN 1", 12),
        ("a NOT = 1", 7),
        ("a = 'open", 5),
        ("a = 1; DROP TABLE run", 6),
        ("a IS 1", 6),
        ("ORDER StartTime", 7),
        ("AND", 4),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, place: int) -> None:
    with pytest.raises(ServiceError, match=f"at character {place}$"):
        parse_query(text)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("a = '" + "x" * 9000 + "'", "8192"),
        ("(" * 60 + "a = 1" + ")" * 60, "50 nested"),
        ("NOT " * 60 + "a = 1", "50 nested"),
        (" OR ".join(["a = 1"] * 201), "200 conditions"),
    ],
)
def test_a_query_beyond_a_limit_is_refused(text: str, limit: str) -> None:
    with pytest.raises(ServiceError, match=limit):
        parse_query(text)
