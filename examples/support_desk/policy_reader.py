"""Reads the policy documents: their sections for search, and the numbers that refunds are checked against."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from examples.support_desk.cell_values import Money, clean_text, parse_money
from examples.support_desk.records import PolicySection, RefundRules
from examples.support_desk.table_reader import decode_text

__all__ = ["read_policies", "read_refund_rules"]

_TABLE_ROW: Final = re.compile(r"\|([^|]+)\|([^|]+)\|")
_LIMIT: Final = re.compile(r"most the desk may refund, ([A-Z]{3})", re.IGNORECASE)


def read_policies(folder: Path) -> tuple[PolicySection, ...]:
    """Return the sections of every Markdown document of a folder, by file name and then in their order.

    Raises:
        ValueError: A document has no title.
    """
    return tuple(section for path in sorted(folder.glob("*.md")) for section in _read_sections(path))


def read_refund_rules(path: Path) -> RefundRules:
    """Read the rules in numbers of a refund policy.

    Raises:
        ValueError: A rule is missing or its number cannot be read.
    """
    window_days: int | None = None
    refunds_per_order: int | None = None
    limits: dict[str, Money] = {}
    for line in _read_lines(path):
        found = _TABLE_ROW.fullmatch(line)
        if found is None:
            continue
        rule, value = clean_text(found[1]), clean_text(found[2])
        if rule.lower() == "refund window after delivery":
            window_days = _read_count(path, rule, value.lower().removesuffix("days"))
        elif rule.lower() == "refunds for one order":
            refunds_per_order = _read_count(path, rule, value)
        elif limit := _LIMIT.fullmatch(rule):
            currency = limit[1].upper()
            try:
                number = value.strip("£$€¥")
                limits[currency] = parse_money(number, currency)
            except ValueError as error:
                raise ValueError(f"{path.name}: the rule {rule!r} cannot be read: {error}") from error
    if window_days is None or refunds_per_order is None or not limits:
        raise ValueError(f"{path.name}: the table of rules lacks the window, the count or the limits")
    return RefundRules(window_days, refunds_per_order, limits)


def _read_count(path: Path, rule: str, value: str) -> int:
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{path.name}: the rule {rule!r} needs a whole number, found {value!r}")
    return int(digits)


def _read_lines(path: Path) -> list[str]:
    text, _ = decode_text(path.read_bytes(), path.name)
    return [line.rstrip() for line in text.splitlines()]


def _read_sections(path: Path) -> list[PolicySection]:
    title, heading = "", ""
    first_line = 1
    body: list[str] = []
    sections: list[PolicySection] = []

    def close() -> None:
        text = "\n".join(body).strip()
        if text:
            source = f"policies/{path.name}:{first_line}"
            sections.append(PolicySection(title, heading or title, text, source))
        body.clear()

    for number, line in enumerate(_read_lines(path), start=1):
        if line.startswith("# "):
            title = clean_text(line[2:])
        elif line.startswith("## "):
            close()
            heading, first_line = clean_text(line[3:]), number
        else:
            body.append(line)
    close()
    if not title:
        raise ValueError(f"policies/{path.name}: a document begins with its title, '# …'")
    return sections
