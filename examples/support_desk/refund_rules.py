"""Whether a refund is within the policy: one pure decision."""

from __future__ import annotations

from datetime import date, timedelta

from examples.support_desk.cell_values import Money
from examples.support_desk.records import Order, RefundRules

__all__ = ["find_refund_obstacle", "refund_deadline"]


def refund_deadline(order: Order, rules: RefundRules) -> date | None:
    """Return the last day on which the order may be refunded, or `None` when its delivery is not known."""
    if order.delivered_on is None:
        return None
    return order.delivered_on + timedelta(days=rules.window_days)


def find_refund_obstacle(order: Order, amount: Money | None, rules: RefundRules, today: date) -> str | None:
    """Return why the desk may not refund this, or `None` when it may.

    What was refunded before is not looked at: only the payment provider knows.

    Args:
        order: The order as the files have it.
        amount: What to refund; `None` for the whole order.
        rules: The rules in numbers.
        today: The day of the refund.
    """
    if order.total is None:
        return "the amount of the order cannot be read from the files"
    contradiction = next((doubt for doubt in order.doubts if "contradicts" in doubt), None)
    if contradiction is not None:
        return f"the files disagree about the order ({contradiction})"
    if order.status is None:
        return "the status of the order cannot be read from the files"
    if order.status not in ("delivered", "returned"):
        return f"the order is {order.status}, not delivered"
    deadline = refund_deadline(order, rules)
    if deadline is None:
        return "the day of delivery is not known; the warehouse has to confirm it first"
    if today > deadline:
        return f"the refund window of {rules.window_days} days after delivery ended on {deadline}"
    amount = order.total if amount is None else amount
    if amount.currency != order.total.currency:
        return f"the order was paid in {order.total.currency}, not in {amount.currency}"
    if amount.amount <= 0:
        return "the amount must be above zero"
    if amount.amount > order.total.amount:
        return f"{amount} is more than the order's {order.total}"
    limit = rules.limits.get(amount.currency)
    if limit is None:
        return f"the policy has no limit for {amount.currency}"
    if amount.amount > limit.amount:
        return f"{amount} is over the desk's limit of {limit}; the team lead has to send it"
    return None
