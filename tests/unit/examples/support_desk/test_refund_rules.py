from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from examples.support_desk.cell_values import Money
from examples.support_desk.records import Order, OrderLine, RefundRules
from examples.support_desk.refund_rules import find_refund_obstacle, refund_deadline

_RULES = RefundRules(
    window_days=30,
    refunds_per_order=1,
    limits={"EUR": Money(Decimal(250), "EUR"), "SEK": Money(Decimal(2800), "SEK")},
)
_ORDER = Order(
    order_id="FF-10001",
    customer_id="C-201",
    ordered_on=date(2026, 10, 28),
    delivered_on=date(2026, 11, 1),
    status="delivered",
    lines=(OrderLine(1, "Mug"),),
    total=Money(Decimal("200.00"), "EUR"),
    note="",
    source="orders.csv:2",
    doubts=(),
)
_LAST_DAY = date(2026, 12, 1)


def test_a_delivered_order_may_be_refunded_until_the_last_day_of_the_window() -> None:
    assert refund_deadline(_ORDER, _RULES) == _LAST_DAY
    assert find_refund_obstacle(_ORDER, None, _RULES, _LAST_DAY) is None
    obstacle = find_refund_obstacle(_ORDER, None, _RULES, date(2026, 12, 2))
    assert obstacle == "the refund window of 30 days after delivery ended on 2026-12-01"


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"total": None}, "the amount of the order cannot be read"),
        ({"status": None}, "the status of the order cannot be read"),
        ({"status": "shipped"}, "the order is shipped, not delivered"),
        ({"delivered_on": None}, "the day of delivery is not known"),
        (
            {"doubts": ("orders.csv:9 contradicts this row: another status",)},
            "the files disagree about the order",
        ),
        ({"total": Money(Decimal("251.00"), "EUR")}, "251.00 EUR is over the desk's limit of 250 EUR"),
        ({"total": Money(Decimal("20.00"), "HUF")}, "the policy has no limit for HUF"),
    ],
)
def test_an_order_that_is_not_certain_or_not_in_the_policy_is_not_refunded(
    changes: dict[str, Any], obstacle: str
) -> None:
    found = find_refund_obstacle(replace(_ORDER, **changes), None, _RULES, _LAST_DAY)
    assert found is not None
    assert found.startswith(obstacle)


@pytest.mark.parametrize(
    ("amount", "obstacle"),
    [
        (Money(Decimal("0.01"), "EUR"), None),
        (Money(Decimal("200.00"), "EUR"), None),
        (Money(Decimal("200.01"), "EUR"), "200.01 EUR is more than the order's 200.00 EUR"),
        (Money(Decimal(0), "EUR"), "the amount must be above zero"),
        (Money(Decimal(-5), "EUR"), "the amount must be above zero"),
        (Money(Decimal("50.00"), "SEK"), "the order was paid in EUR, not in SEK"),
    ],
)
def test_a_part_of_an_order_may_be_refunded_in_its_own_currency(amount: Money, obstacle: str | None) -> None:
    assert find_refund_obstacle(_ORDER, amount, _RULES, _LAST_DAY) == obstacle
