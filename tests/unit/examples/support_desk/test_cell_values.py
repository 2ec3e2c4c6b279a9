from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from examples.support_desk.cell_values import (
    AmbiguousCurrencyError,
    Money,
    clean_text,
    parse_amount,
    parse_currency,
    parse_date,
    parse_money,
    repair_text,
)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-05",
        "2026/11/05",
        "2026-11-05T07:30:00Z",
        "5.11.2026",
        "05/11/2026",
        "5 Nov 2026",
        "Nov 5, 2026",
        "November 5th, 2026",
        "5. November 2026",
        "5 de noviembre de 2026",
        "2026年11月5日",
        "  5   nov.  2026 ",
    ],
)
def test_one_day_is_read_from_every_spelling(text: str) -> None:
    assert parse_date(text) == date(2026, 11, 5)


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("30. März 2026", 3),
        ("30 août 2026", 8),
        ("30 maj 2026", 5),
        ("30 juin 2026", 6),
        ("30 juillet 2026", 7),
    ],
)
def test_months_are_read_in_the_languages_of_the_desk(text: str, month: int) -> None:
    assert parse_date(text) == date(2026, month, 30)


def test_a_slash_date_is_day_first_unless_only_month_first_is_possible() -> None:
    assert parse_date("03/04/2026") == date(2026, 4, 3)
    assert parse_date("11/27/2026") == date(2026, 11, 27)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("yesterday", "not a date"),
        ("31.02.2026", "no such day"),
        ("2062-10-03", "the year 2062 is not plausible"),
        ("5 Smarch 2026", "not the name of a month"),
        ("13.13.2026", "no such day"),
        ("", "not a date"),
    ],
)
def test_what_is_no_day_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_date(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("219", "219"),
        ("219.00", "219"),
        ("219,5", "219.5"),
        ("1.249,00", "1249"),
        ("1,249.00", "1249"),
        ("1 249,00", "1249"),
        ("1\u00a0249,00", "1249"),
        ("1'249.50", "1249.5"),
        ("1,249", "1249"),
        ("1.249", "1249"),
        ("1,234,567", "1234567"),
        ("1.234.567,89", "1234567.89"),
        ("0,50", "0.5"),
        ("-12.30", "-12.3"),
    ],
)
def test_amounts_are_read_with_any_separators(text: str, amount: str) -> None:
    assert parse_amount(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text", ["", "about 90", "12.3456", "1,23.456", "1.2.3", "12..5", "0.500", "--5", "1e3"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_amount(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [("€", "EUR"), ("euro", "EUR"), (" US$ ", "USD"), ("zł", "PLN"), ("円", "JPY"), ("Fr.", "CHF")],
)
def test_currencies_are_read_by_code_sign_or_name(text: str, code: str) -> None:
    assert parse_currency(text) == code


def test_kronor_are_told_apart_by_the_country_of_the_customer() -> None:
    assert [parse_currency("Kr.", country) for country in ("SE", "NO", "DK")] == ["SEK", "NOK", "DKK"]
    with pytest.raises(AmbiguousCurrencyError):
        parse_currency("kr", "DE")


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        ("219,00", "€", Money(Decimal("219.00"), "EUR")),
        ("$ 45.00", "", Money(Decimal("45.00"), "USD")),
        ("45,00 EUR", "", Money(Decimal("45.00"), "EUR")),
        ("12,800", "JPY", Money(Decimal(12800), "JPY")),
    ],
)
def test_a_currency_is_read_from_its_cell_or_beside_the_number(
    amount: str, currency: str, expected: Money
) -> None:
    assert parse_money(amount, currency) == expected


@pytest.mark.parametrize(
    ("amount", "currency", "reason"),
    [
        ("129.00", "??", "unknown currency"),
        ("129.00", "", "unknown currency"),
        ("about 90", "EUR", "a word beside it and a currency of its own"),
        ("1.50", "JPY", "JPY has no such decimals"),
        ("free", "EUR", "not an amount"),
    ],
)
def test_money_that_cannot_be_read_says_why(amount: str, currency: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_money(amount, currency)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("JosÃ© GarcÃ\xada NÃºÃ±ez", "José García Núñez"),
        ("HÃ¥kon Dahl", "Håkon Dahl"),
        ("Ã‰milie", "Émilie"),
        ("\u00c5\u201aÃ³dÅº", "łódź"),
        ("itâ€™s", "it\u2019s"),
    ],
)
def test_a_text_that_was_decoded_wrongly_once_is_repaired(wrong: str, right: str) -> None:
    assert repair_text(wrong) == right


@pytest.mark.parametrize("text", ["José", "Ãngela", "Göteborg", "Łódź", "Ã", "田中 由紀", "São Tomé", ""])
def test_a_text_that_is_right_stays_as_it_is(text: str) -> None:
    assert repair_text(text) == text


def test_blanks_are_cleaned_and_line_breaks_are_kept() -> None:
    assert clean_text("  a \t b\u00a0c  \r\n  d ") == "a b c\nd"
