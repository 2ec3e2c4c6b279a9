"""What the files of the desk say once they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from examples.support_desk.cell_values import Money

__all__ = [
    "Customer",
    "DataProblem",
    "FileReport",
    "Order",
    "OrderLine",
    "OrderStatus",
    "PolicySection",
    "RefundRules",
    "SupportDeskFiles",
    "Ticket",
    "TicketStatus",
]

OrderStatus = Literal["pending", "paid", "shipped", "delivered", "returned", "cancelled"]
TicketStatus = Literal["open", "waiting", "closed"]


@dataclass(frozen=True)
class DataProblem:
    """Something in a file that was not read as it stands.

    Attributes:
        source: File and line, such as `orders.csv:137`.
        column: The column, or `""` for the row or file as a whole.
        found: What stands there, cut at 60 characters.
        problem: What is wrong with it.
        treatment: What became of it.
    """

    source: str
    column: str
    found: str
    problem: str
    treatment: Literal["left empty", "row skipped", "repaired", "first row kept"]

    def __str__(self) -> str:
        place = f"{self.source} {self.column}".rstrip()
        return f"{place}: {self.problem} ({self.found!r}, {self.treatment})"


@dataclass(frozen=True)
class FileReport:
    """What became of the rows of one table: the four counts after `rows` add up to it.

    Attributes:
        file: The file's name.
        rows: Rows after the header.
        kept: Rows that became a record.
        blank: Rows without any content.
        duplicates: Rows that repeat an earlier one, or contradict it under the same ID.
        skipped: Rows that could not be read as a record; each is a problem too.
    """

    file: str
    rows: int
    kept: int
    blank: int
    duplicates: int
    skipped: int


@dataclass(frozen=True)
class OrderLine:
    """A product and how many of it."""

    quantity: int
    product: str


@dataclass(frozen=True)
class Order:
    """One order; what the file left open is `None` and named in `doubts`."""

    order_id: str
    customer_id: str | None
    ordered_on: date | None
    delivered_on: date | None
    status: OrderStatus | None
    lines: tuple[OrderLine, ...]
    total: Money | None
    note: str
    source: str
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class Customer:
    """One customer; what the file left open is `None` and named in `doubts`."""

    customer_id: str
    name: str
    email: str | None
    city: str
    country: str | None
    since: date | None
    language: str
    source: str
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class Ticket:
    """One message of a customer; what the file left open is `None` and named in `doubts`."""

    ticket_id: str
    order_id: str | None
    customer_id: str | None
    opened_on: date | None
    subject: str
    body: str
    status: TicketStatus | None
    source: str
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class PolicySection:
    """One section of a policy document."""

    policy: str
    heading: str
    text: str
    source: str


@dataclass(frozen=True)
class RefundRules:
    """The numbers of `policies/refunds.md`.

    Attributes:
        window_days: Days after delivery in which a refund is possible.
        refunds_per_order: How many refunds one order may get.
        limits: The most that the desk may refund, by currency.
    """

    window_days: int
    refunds_per_order: int
    limits: Mapping[str, Money]


@dataclass(frozen=True)
class SupportDeskFiles:
    """Everything that was read.

    Attributes:
        orders: By order ID, in file order.
        customers: By customer ID, in file order.
        tickets: By ticket ID, in file order.
        policies: All sections of all documents.
        refund_rules: The numbers that a refund is checked against.
        as_of: The newest day in the files: they are an export, and this is its "today".
        reports: One for each table.
        problems: All that was not read as it stands, in file order.
    """

    orders: Mapping[str, Order]
    customers: Mapping[str, Customer]
    tickets: Mapping[str, Ticket]
    policies: tuple[PolicySection, ...]
    refund_rules: RefundRules
    as_of: date
    reports: tuple[FileReport, ...]
    problems: tuple[DataProblem, ...]
