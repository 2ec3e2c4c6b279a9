"""What can be asked of the desk's files: plain questions in, JSON-ready answers out. Pure.

Every answer names the file and line it comes from, and says what the files left open.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any, TypeAlias

from examples.support_desk.cell_values import Money
from examples.support_desk.file_reader import normalize_customer_id, normalize_order_id
from examples.support_desk.records import Customer, Order, SupportDeskFiles, Ticket
from examples.support_desk.refund_rules import find_refund_obstacle, refund_deadline
from examples.support_desk.search import Document, SearchHit, SearchIndex, split_words

__all__ = ["MAX_HITS", "Answer", "SupportDesk"]

Answer: TypeAlias = dict[str, Any]
"""A JSON object."""

MAX_HITS = 8
"""The most that one search returns."""


class SupportDesk:
    """Answers from the files.

    Args:
        files: What was read.
        today: The day that windows are counted to; the export's own day when it is left out.
    """

    def __init__(self, files: SupportDeskFiles, today: date | None = None) -> None:
        self.files = files
        self.today = files.as_of if today is None else today
        self._tickets = SearchIndex(self._build_ticket_document(ticket) for ticket in files.tickets.values())
        self._policies = SearchIndex(
            Document(section.heading, f"{section.policy}: {section.heading}", section.text, section.source)
            for section in files.policies
        )
        self._orders = SearchIndex(self._build_order_document(order) for order in files.orders.values())

    def lookup_order(self, order_id: str) -> Answer:
        """Return one order, whether it may be refunded, and the doubts about it.

        Raises:
            ValueError: `order_id` is no order ID.
        """
        order_id = normalize_order_id(order_id)
        order = self.files.orders.get(order_id)
        if order is None:
            return {"found": False, "order_id": order_id, "searched_orders": len(self.files.orders)}
        obstacle = find_refund_obstacle(order, None, self.files.refund_rules, self.today)
        deadline = refund_deadline(order, self.files.refund_rules)
        customer = self.files.customers.get(order.customer_id or "")
        return {
            "found": True,
            **_describe_order(order),
            "customer_name": None if customer is None else customer.name,
            "note": order.note,
            "doubts": list(order.doubts),
            "today": self.today.isoformat(),
            "refund": {
                "allowed_by_policy": obstacle is None,
                "obstacle": obstacle,
                "last_day": None if deadline is None else deadline.isoformat(),
                "refunds_per_order": self.files.refund_rules.refunds_per_order,
            },
        }

    def lookup_customer(self, customer: str) -> Answer:
        """Return the customer with this ID, e-mail address or name, or those whose names are close.

        Raises:
            ValueError: `customer` is blank.
        """
        wanted = customer.strip()
        if not wanted:
            raise ValueError("an ID, an e-mail address or a name is needed")
        matches = self._find_customers(wanted)
        if len(matches) == 1:
            return {"found": True, **_describe_customer(matches[0])}
        return {
            "found": False,
            "customer": wanted,
            "candidates": [_describe_customer(match) for match in matches[:MAX_HITS]],
            "searched_customers": len(self.files.customers),
        }

    def list_orders_of_customer(self, customer_id: str) -> Answer:
        """Return a customer's orders, newest first.

        Raises:
            ValueError: `customer_id` is no customer ID.
        """
        customer_id = normalize_customer_id(customer_id)
        orders = [order for order in self.files.orders.values() if order.customer_id == customer_id]
        orders.sort(key=lambda order: order.ordered_on or date.min, reverse=True)
        return {"customer_id": customer_id, "orders": [_describe_order(order) for order in orders]}

    def search_orders(self, query: str, limit: int = 4) -> Answer:
        """Find orders by product, note, status or customer."""
        return self._answer_search(self._orders, query, limit)

    def search_tickets(self, query: str, limit: int = 4) -> Answer:
        """Find tickets by their words, or by an order, customer or ticket ID."""
        answer = self._answer_search(self._tickets, query, limit)
        for hit in answer["hits"]:
            ticket = self.files.tickets[hit["id"]]
            customer = self.files.customers.get(ticket.customer_id or "")
            hit["order_id"] = ticket.order_id
            hit["from"] = None if customer is None else customer.name
            hit["opened_on"] = None if ticket.opened_on is None else ticket.opened_on.isoformat()
            hit["status"] = ticket.status
        return answer

    def search_policies(self, query: str, limit: int = 3) -> Answer:
        """Find sections of the policies."""
        return self._answer_search(self._policies, query, limit)

    def count_orders(self) -> Answer:
        """Count the orders by status, and sum what was paid for those that were delivered, by currency."""
        statuses = Counter(order.status or "unknown" for order in self.files.orders.values())
        sums: dict[str, Money] = {}
        for order in self.files.orders.values():
            if order.status == "delivered" and order.total is not None:
                earlier = sums.get(order.total.currency)
                amount = order.total.amount if earlier is None else earlier.amount + order.total.amount
                sums[order.total.currency] = Money(amount, order.total.currency)
        return {
            "orders": len(self.files.orders),
            "by_status": dict(statuses.most_common()),
            "delivered_totals": [str(money) for money in sums.values()],
            "source": "orders.csv",
        }

    def require_refundable(self, order_id: str, amount: Money | None) -> Money:
        """Return what to refund: `amount`, or the whole order.

        Raises:
            ValueError: The order is unknown or the policy says no; the text says why.
        """
        order = self.files.orders.get(normalize_order_id(order_id))
        if order is None:
            raise ValueError(f"there is no order {order_id}")
        obstacle = find_refund_obstacle(order, amount, self.files.refund_rules, self.today)
        if obstacle is not None or order.total is None:
            raise ValueError(obstacle)
        return order.total if amount is None else amount

    def _answer_search(self, index: SearchIndex, query: str, limit: int) -> Answer:
        hits = index.search(query, min(max(limit, 1), MAX_HITS))
        return {"query": query, "searched": len(index), "hits": [_describe_hit(hit) for hit in hits]}

    def _find_customers(self, wanted: str) -> list[Customer]:
        try:
            by_id = self.files.customers.get(normalize_customer_id(wanted))
        except ValueError:
            by_id = None
        if by_id is not None:
            return [by_id]
        customers = self.files.customers.values()
        if "@" in wanted:
            return [customer for customer in customers if customer.email == wanted.lower()]
        words = set(split_words(wanted))
        exact = [customer for customer in customers if words and words == set(split_words(customer.name))]
        if exact:
            return exact
        return [customer for customer in customers if words & set(split_words(customer.name))]

    def _build_ticket_document(self, ticket: Ticket) -> Document:
        order = self.files.orders.get(ticket.order_id or "")
        customer = self.files.customers.get(ticket.customer_id or "")
        keywords = [ticket.ticket_id, ticket.order_id or "", ticket.customer_id or ""]
        keywords += [] if order is None else [line.product for line in order.lines]
        keywords += [] if customer is None else [customer.name]
        text = ticket.body or ticket.subject
        return Document(ticket.ticket_id, ticket.subject, text, ticket.source, " ".join(keywords))

    def _build_order_document(self, order: Order) -> Document:
        customer = self.files.customers.get(order.customer_id or "")
        title = _describe_lines(order)
        facts = [title, order.total, order.status, order.ordered_on and f"ordered on {order.ordered_on}"]
        text = ", ".join(str(fact) for fact in facts if fact) + "."
        text += f"\n\n{order.note}" if order.note else ""
        keywords = [order.order_id, order.customer_id or "", "" if customer is None else customer.name]
        return Document(order.order_id, title, text, order.source, " ".join(keywords))


def _describe_order(order: Order) -> Answer:
    return {
        "order_id": order.order_id,
        "customer_id": order.customer_id,
        "status": order.status,
        "ordered_on": None if order.ordered_on is None else order.ordered_on.isoformat(),
        "delivered_on": None if order.delivered_on is None else order.delivered_on.isoformat(),
        "items": _describe_lines(order),
        "total": None if order.total is None else str(order.total),
        "source": order.source,
    }


def _describe_lines(order: Order) -> str:
    return "; ".join(f"{line.quantity} x {line.product}" for line in order.lines)


def _describe_customer(customer: Customer) -> Answer:
    return {
        "customer_id": customer.customer_id,
        "name": customer.name,
        "email": customer.email,
        "city": customer.city,
        "country": customer.country,
        "source": customer.source,
        "doubts": list(customer.doubts),
    }


def _describe_hit(hit: SearchHit) -> Answer:
    document = hit.document
    return {
        "id": document.document_id,
        "title": document.title,
        "quote": hit.quote,
        "source": document.source,
        "coverage": round(hit.coverage, 2),
    }
