from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from examples.support_desk.file_reader import (
    DATA_FOLDER,
    normalize_customer_id,
    normalize_order_id,
    normalize_ticket_id,
    read_files,
)
from examples.support_desk.records import SupportDeskFiles

_ORDER_HEADER = "Order ID,customer,Ordered on,delivered_on,Status ,items,Amount,currency,note\n"
_CUSTOMERS = "customer_id,name,email,city,country,since,language\nC-201,Åsa,asa@example.net,Umeå,SE,,sv\n"


@pytest.fixture(scope="module")
def shipped() -> SupportDeskFiles:
    return read_files()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA_FOLDER / "policies", tmp_path / "policies")
    (tmp_path / "customers.csv").write_text(_CUSTOMERS, encoding="utf-8")
    (tmp_path / "orders.csv").write_text(_ORDER_HEADER, encoding="utf-8")
    return tmp_path


def _write_orders(folder: Path, *rows: str) -> SupportDeskFiles:
    (folder / "orders.csv").write_text(_ORDER_HEADER + "".join(row + "\n" for row in rows), encoding="utf-8")
    return read_files(folder)


def test_every_row_of_the_shipped_files_is_accounted_for(shipped: SupportDeskFiles) -> None:
    for report in shipped.reports:
        assert report.rows == report.kept + report.blank + report.duplicates + report.skipped, report
        skipped = [
            p for p in shipped.problems if p.treatment == "row skipped" and p.source.startswith(report.file)
        ]
        assert len(skipped) == report.skipped, report
    assert sum(report.rows for report in shipped.reports) > 300


def test_the_shipped_files_hold_every_kind_of_mess(shipped: SupportDeskFiles) -> None:
    assert {problem.treatment for problem in shipped.problems} == {
        "left empty",
        "row skipped",
        "repaired",
        "first row kept",
    }
    assert shipped.customers["C-205"].name == "José García Núñez"
    assert "\n" in shipped.orders["FF-10446"].note
    assert any(section.source.startswith("policies/returns.md") for section in shipped.policies)
    assert "é" in shipped.tickets["T-3001"].body, "the archive is Windows-1252"


def test_a_record_names_the_line_it_was_read_from(shipped: SupportDeskFiles) -> None:
    name, _, number = shipped.orders["FF-10458"].source.partition(":")
    lines = (DATA_FOLDER / name).read_text(encoding="utf-8").split("\n")
    assert lines[int(number) - 1].startswith("FF-10458")


def test_the_newest_day_of_the_files_is_their_today(shipped: SupportDeskFiles) -> None:
    assert shipped.as_of == date(2026, 11, 30)


def test_a_clean_row_becomes_a_record_without_doubts(folder: Path) -> None:
    files = _write_orders(
        folder, 'ff 10001,c-201,2 Nov 2026,05/11/2026,levererad,"1 x Mug, blue; 2 x Tent","1 249,00",kr,'
    )
    order = files.orders["FF-10001"]
    assert (order.ordered_on, order.delivered_on) == (date(2026, 11, 2), date(2026, 11, 5))
    assert [(line.quantity, line.product) for line in order.lines] == [(1, "Mug, blue"), (2, "Tent")]
    assert str(order.total) == "1,249.00 SEK"
    assert (order.status, order.doubts, files.problems) == ("delivered", (), ())


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        ("FF-10001,C-201,31.02.2026,,paid,1 x Mug,5.00,EUR,", "ordered_on", "no such day in the calendar"),
        ("FF-10001,C-201,2026-01-02,,posted,1 x Mug,5.00,EUR,", "status", "unknown status"),
        ("FF-10001,C-201,2026-01-02,,paid,a mug,5.00,EUR,", "items", "not a list of items like"),
        ("FF-10001,C-201,2026-01-02,,paid,1 x Mug,,EUR,", "amount", "missing"),
        (
            "FF-10001,C-999,2026-01-02,,paid,1 x Mug,5.00,EUR,",
            "customer_id",
            "no such customer in customers.csv",
        ),
        ("FF-10001,,2026-01-02,,paid,1 x Mug,5.00,EUR,", "customer_id", "missing"),
    ],
)
def test_a_cell_that_cannot_be_read_is_a_problem_and_a_doubt(
    folder: Path, row: str, column: str, problem: str
) -> None:
    files = _write_orders(folder, row)
    (reported,) = files.problems
    assert (reported.source, reported.column, reported.treatment) == ("orders.csv:2", column, "left empty")
    assert reported.problem.startswith(problem)
    assert files.orders["FF-10001"].doubts == (f"{column}: {reported.problem}",)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (",C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,", "order_id"),
        ("FF-1,C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,", "order_id"),
        ("FF-10001,C-201,2026-01-02", ""),
        ('FF-10001,"C-201" x,2026-01-02,,paid,1 x Mug,5.00,EUR,', ""),
        ('FF-10001,C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,"never closed', ""),
    ],
)
def test_a_row_that_is_no_record_is_skipped_and_reported(folder: Path, row: str, column: str) -> None:
    files = _write_orders(folder, row)
    assert files.orders == {}
    (problem,) = files.problems
    assert (problem.source, problem.column, problem.treatment) == ("orders.csv:2", column, "row skipped")


def test_a_row_after_a_broken_one_is_read(folder: Path) -> None:
    good = "FF-10002,C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,"
    files = _write_orders(folder, 'FF-10001,"C-201" x,2026-01-02,,paid,1 x Mug,5.00,EUR,', good)
    assert list(files.orders) == ["FF-10002"]


def test_a_repeated_row_is_dropped_and_reported(folder: Path) -> None:
    row = "FF-10001,C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,"
    files = _write_orders(folder, row, row)
    (problem,) = files.problems
    assert (problem.treatment, problem.problem) == ("first row kept", "repeats FF-10001 of orders.csv:2")
    assert files.orders["FF-10001"].doubts == ()


def test_a_row_that_contradicts_an_earlier_one_puts_it_in_doubt(folder: Path) -> None:
    row = "FF-10001,C-201,2026-01-02,,{},1 x Mug,5.00,EUR,"
    files = _write_orders(folder, row.format("paid"), row.format("returned"))
    assert files.orders["FF-10001"].status == "paid"
    assert files.orders["FF-10001"].doubts == ("orders.csv:3 contradicts this row: another status",)


def test_another_spelling_of_the_same_is_no_contradiction(folder: Path) -> None:
    files = _write_orders(
        folder,
        "FF-10001,C-201,2026-01-02,,paid,1 x Mug,5.00,EUR,",
        "ff10001,c-201,2 Jan 2026,,bezahlt,1 x Mug,5,€,",
    )
    assert files.orders["FF-10001"].doubts == ()
    assert [problem.treatment for problem in files.problems] == ["first row kept"]


def test_an_id_of_an_earlier_file_is_a_repeat_too(folder: Path) -> None:
    header = "ticket_id,order_id,customer_id,opened_on,subject,body,status\n"
    row = "T-3001,FF-10001,C-201,2026-01-02,Broken,It broke.,{}\n"
    (folder / "tickets.csv").write_text(header + row.format("open"), encoding="utf-8")
    (folder / "tickets_old.csv").write_text(header + row.format("closed"), encoding="utf-8")
    files = read_files(folder)
    assert files.tickets["T-3001"].status == "open"
    assert files.tickets["T-3001"].doubts == ("tickets_old.csv:2 contradicts this row: another status",)
    assert [(report.kept, report.duplicates) for report in files.reports[-2:]] == [(1, 0), (0, 1)]


def test_a_table_without_a_needed_column_is_refused_by_name(folder: Path) -> None:
    (folder / "orders.csv").write_text("order_id,customer\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"orders\.csv: no column 'ordered_on'"):
        read_files(folder)


def test_an_empty_table_is_refused(folder: Path) -> None:
    (folder / "orders.csv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"orders\.csv: no column"):
        read_files(folder)


def test_a_refund_policy_without_its_numbers_is_refused(folder: Path) -> None:
    (folder / "policies" / "refunds.md").write_text("# Refunds\n\nAs you like.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"refunds\.md: the table of rules lacks"):
        read_files(folder)


def test_refund_rules_are_read_from_the_policy(folder: Path) -> None:
    policy = folder / "policies" / "refunds.md"
    policy.write_text(policy.read_text(encoding="utf-8").replace("30 days", "14 days"), encoding="utf-8")
    rules = read_files(folder).refund_rules
    assert rules.window_days == 14
    assert {str(limit) for limit in rules.limits.values()} >= {"250.00 EUR", "2,800.00 SEK", "40,000 JPY"}


def test_identifiers_are_read_in_any_spelling() -> None:
    assert normalize_order_id(" ff 10432 ") == "FF-10432"
    assert normalize_customer_id("c203") == "C-203"
    assert normalize_ticket_id("T-3001") == "T-3001"
    for wrong in ("FF-1043", "FF-104321", "XX-10432", "", "FF-١٠٤٣٢"):
        with pytest.raises(ValueError, match="not an order ID"):
            normalize_order_id(wrong)
