"""Turns the files of the desk into records, and tells all that it could not read.

Nothing is lost in silence: each row is kept, blank, a duplicate or skipped, and the counts of a
`FileReport` add up; each cell that was not read as it stands is a `DataProblem` and, on its record, a doubt.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Final, TypeVar

from examples.support_desk.cell_values import clean_text, parse_date, parse_money
from examples.support_desk.policy_reader import read_policies, read_refund_rules
from examples.support_desk.records import (
    Customer,
    DataProblem,
    FileReport,
    Order,
    OrderLine,
    OrderStatus,
    SupportDeskFiles,
    Ticket,
    TicketStatus,
)
from examples.support_desk.table_reader import Table, TableRow, build_problem, read_table

__all__ = ["DATA_FOLDER", "normalize_customer_id", "normalize_order_id", "normalize_ticket_id", "read_files"]

DATA_FOLDER: Final = Path(__file__).parent / "data"
"""The files that come with the example."""

_ORDER_COLUMNS: Final = {
    "order_id": ("order id", "order_id"),
    "customer_id": ("customer", "customer_id"),
    "ordered_on": ("ordered on", "ordered_on"),
    "delivered_on": ("delivered on", "delivered_on"),
    "status": ("status",),
    "items": ("items",),
    "amount": ("amount",),
    "currency": ("currency",),
    "note": ("note",),
}
_CUSTOMER_COLUMNS: Final = {
    name: (name,) for name in ("customer_id", "name", "email", "city", "country", "since", "language")
}
_TICKET_COLUMNS: Final = {
    "ticket_id": ("ticket_id", "ticket"),
    "order_id": ("order_id", "order"),
    "customer_id": ("customer_id", "customer"),
    "opened_on": ("opened_on", "opened"),
    "subject": ("subject",),
    "body": ("body", "text"),
    "status": ("status", "state"),
}

_ORDER_STATUSES: Final[Mapping[str, OrderStatus]] = {
    "pending": "pending",
    "paid": "paid",
    "bezahlt": "paid",
    "shipped": "shipped",
    "in transit": "shipped",
    "versandt": "shipped",
    "delivered": "delivered",
    "geliefert": "delivered",
    "livré": "delivered",
    "levererad": "delivered",
    "entregado": "delivered",
    "returned": "returned",
    "retourné": "returned",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "storniert": "cancelled",
}
_TICKET_STATUSES: Final[Mapping[str, TicketStatus]] = {
    "open": "open",
    "waiting": "waiting",
    "pending": "waiting",
    "closed": "closed",
    "solved": "closed",
}
_COUNTRIES: Final = {"united kingdom": "GB", "deutschland": "DE", "sverige": "SE"}

_Record = TypeVar("_Record", Customer, Order, Ticket)
_Value = TypeVar("_Value")


class _RowReading:
    """Reads the cells of one row and collects what is wrong with them."""

    def __init__(self, row: TableRow) -> None:
        self.row = row
        self.problems: list[DataProblem] = []

    def read(self, column: str, parse: Callable[[str], _Value], *, required: bool = False) -> _Value | None:
        """Return the parsed cell; an empty one, or one that cannot be parsed, is `None`."""
        cell = self.row.cells[column]
        if not cell:
            if required:
                self.report(column, cell, "missing")
            return None
        try:
            return parse(cell)
        except ValueError as error:
            self.report(column, cell, str(error))
            return None

    def report(self, column: str, found: str, problem: str) -> None:
        self.problems.append(build_problem(self.row.source, column, found, problem))

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(f"{problem.column}: {problem.problem}" for problem in self.problems)


def normalize_order_id(text: str) -> str:
    """Return an order ID as `FF-10432`.

    Raises:
        ValueError: It is none.
    """
    return _normalize_id(text, "FF", 5, "an order ID (FF- and five digits)")


def normalize_customer_id(text: str) -> str:
    """Return a customer ID as `C-203`.

    Raises:
        ValueError: It is none.
    """
    return _normalize_id(text, "C", 3, "a customer ID (C- and three digits)")


def normalize_ticket_id(text: str) -> str:
    """Return a ticket ID as `T-3001`.

    Raises:
        ValueError: It is none.
    """
    return _normalize_id(text, "T", 4, "a ticket ID (T- and four digits)")


def _normalize_id(text: str, prefix: str, digits: int, expected: str) -> str:
    found = re.fullmatch(rf"{prefix}[-\s]?(\d{{{digits}}})", clean_text(text), re.IGNORECASE | re.ASCII)
    if found is None:
        raise ValueError(f"not {expected}")
    return f"{prefix}-{found[1]}"


def read_files(folder: Path = DATA_FOLDER) -> SupportDeskFiles:
    """Read every file of a folder.

    Args:
        folder: Holds `customers.csv`, `orders.csv`, `tickets*.csv` and `policies/*.md`.

    Raises:
        OSError: A file cannot be opened.
        ValueError: A file is not such a table, or `policies/refunds.md` lacks a rule.
    """
    problems: list[DataProblem] = []
    reports: list[FileReport] = []
    customers: dict[str, Customer] = {}
    orders: dict[str, Order] = {}
    tickets: dict[str, Ticket] = {}

    def read_order(reading: _RowReading) -> Order | None:
        return _read_order(reading, customers)

    def add(table: Table, records: dict[str, _Record], read: Callable[[_RowReading], _Record | None]) -> None:
        report, found_problems = _add_records(table, records, read)
        reports.append(report)
        problems.extend(found_problems)

    add(read_table(folder / "customers.csv", _CUSTOMER_COLUMNS), customers, _read_customer)
    add(read_table(folder / "orders.csv", _ORDER_COLUMNS), orders, read_order)
    for path in sorted(folder.glob("tickets*.csv")):
        add(read_table(path, _TICKET_COLUMNS), tickets, _read_ticket)
    days = [order.ordered_on for order in orders.values()] + [ticket.opened_on for ticket in tickets.values()]
    return SupportDeskFiles(
        orders=orders,
        customers=customers,
        tickets=tickets,
        policies=read_policies(folder / "policies"),
        refund_rules=read_refund_rules(folder / "policies" / "refunds.md"),
        as_of=max((day for day in days if day is not None), default=date.min),
        reports=tuple(reports),
        problems=tuple(problems),
    )


def _add_records(
    table: Table, records: dict[str, _Record], read: Callable[[_RowReading], _Record | None]
) -> tuple[FileReport, list[DataProblem]]:
    """Add a table's rows to the records that earlier files gave, the first row of an ID winning."""
    problems = list(table.problems)
    kept = duplicates = 0
    for row in table.rows:
        reading = _RowReading(row)
        record = read(reading)
        if record is None:
            last = reading.problems[-1]
            problems.append(build_problem(row.source, last.column, last.found, last.problem, "row skipped"))
            continue
        record_id = _identify(record)
        first = records.get(record_id)
        if first is None:
            kept += 1
            records[record_id] = record
            problems.extend(reading.problems)
            continue
        duplicates += 1
        says = f"repeats {record_id} of {first.source}"
        changed = ", ".join(_list_differences(first, record))
        if changed:
            says += f" with another {changed}"
            doubt = f"{row.source} contradicts this row: another {changed}"
            records[record_id] = _add_doubt(first, doubt)
        problems.append(build_problem(row.source, "", record_id, says, "first row kept"))
    skipped = table.row_count - kept - table.blank - duplicates
    return FileReport(table.file, table.row_count, kept, table.blank, duplicates, skipped), problems


def _add_doubt(record: _Record, doubt: str) -> _Record:
    return dataclasses.replace(record, doubts=(*record.doubts, doubt))


def _identify(record: Customer | Order | Ticket) -> str:
    match record:
        case Customer():
            return record.customer_id
        case Order():
            return record.order_id
        case Ticket():
            return record.ticket_id


def _list_differences(first: Customer | Order | Ticket, second: Customer | Order | Ticket) -> list[str]:
    """Return the fields in which two records say something else, however it was spelled."""
    return [
        field.name
        for field in dataclasses.fields(first)
        if field.name not in ("source", "doubts")
        and getattr(first, field.name) != getattr(second, field.name)
    ]


def _read_customer(reading: _RowReading) -> Customer | None:
    name = reading.row.cells["name"]
    customer_id = reading.read("customer_id", normalize_customer_id, required=True)
    if customer_id is None:
        return None
    if not name:
        reading.report("name", name, "missing")
        return None
    return Customer(
        customer_id=customer_id,
        name=name,
        email=reading.read("email", _parse_email, required=True),
        city=reading.row.cells["city"],
        country=reading.read("country", _parse_country, required=True),
        since=reading.read("since", parse_date),
        language=reading.row.cells["language"].lower(),
        source=reading.row.source,
        doubts=reading.doubts,
    )


def _read_order(reading: _RowReading, customers: Mapping[str, Customer]) -> Order | None:
    cells = reading.row.cells
    order_id = reading.read("order_id", normalize_order_id, required=True)
    if order_id is None:
        return None
    customer_id = reading.read("customer_id", normalize_customer_id, required=True)
    customer = customers.get(customer_id or "")
    if customer_id is not None and customer is None:
        reading.report("customer_id", customer_id, "no such customer in customers.csv")
        customer_id = None
    country = None if customer is None else customer.country
    status = reading.read("status", _parse_order_status, required=True)
    delivered_on = reading.read("delivered_on", parse_date)
    return Order(
        order_id=order_id,
        customer_id=customer_id,
        ordered_on=reading.read("ordered_on", parse_date, required=True),
        delivered_on=delivered_on,
        status=status,
        lines=reading.read("items", _parse_lines, required=True) or (),
        total=reading.read(
            "amount", lambda cell: parse_money(cell, cells["currency"], country), required=True
        ),
        note=cells["note"],
        source=reading.row.source,
        doubts=reading.doubts,
    )


def _read_ticket(reading: _RowReading) -> Ticket | None:
    cells = reading.row.cells
    ticket_id = reading.read("ticket_id", normalize_ticket_id, required=True)
    if ticket_id is None:
        return None
    if not cells["body"]:
        reading.report("body", "", "missing")
    return Ticket(
        ticket_id=ticket_id,
        order_id=reading.read("order_id", normalize_order_id, required=True),
        customer_id=reading.read("customer_id", normalize_customer_id, required=True),
        opened_on=reading.read("opened_on", parse_date, required=True),
        subject=cells["subject"],
        body=cells["body"],
        status=reading.read("status", _parse_ticket_status, required=True),
        source=reading.row.source,
        doubts=reading.doubts,
    )


def _parse_order_status(cell: str) -> OrderStatus:
    status = _ORDER_STATUSES.get(cell.lower())
    if status is None:
        raise ValueError("unknown status")
    return status


def _parse_ticket_status(cell: str) -> TicketStatus:
    status = _TICKET_STATUSES.get(cell.lower())
    if status is None:
        raise ValueError("unknown status")
    return status


def _parse_email(cell: str) -> str:
    if not re.fullmatch(r"[^\s@]+@[^\s@]+\.[^\s@]+", cell):
        raise ValueError("not an e-mail address")
    return cell.lower()


def _parse_country(cell: str) -> str:
    code = _COUNTRIES.get(cell.lower(), cell.upper())
    if not re.fullmatch(r"[A-Z]{2}", code):
        raise ValueError("unknown country")
    return code


def _parse_lines(cell: str) -> tuple[OrderLine, ...]:
    lines: list[OrderLine] = []
    for part in cell.split(";"):
        found = re.fullmatch(r"(\d{1,4})\s*x\s+(.+)", part.strip())
        if found is None:
            raise ValueError("not a list of items like '2 x Beam 400 headlamp; 1 x Dry bag set'")
        lines.append(OrderLine(int(found[1]), found[2]))
    return tuple(lines)
