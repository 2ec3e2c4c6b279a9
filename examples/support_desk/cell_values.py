"""Reads the values of table cells as people and old systems write them.

Each function returns a value or raises `ValueError` with the reason; none of them guesses.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

__all__ = [
    "AmbiguousCurrencyError",
    "Money",
    "clean_text",
    "parse_amount",
    "parse_currency",
    "parse_date",
    "parse_money",
    "repair_text",
]

_PLAUSIBLE_YEARS: Final = range(2015, 2036)

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar januari janvier enero styczen",
            "feb february februar februari fevrier febrero luty",
            "mar march marz maerz mars marzo marzec",
            "apr april avril abril kwiecien",
            "may mai maj mayo",
            "jun june juni juin junio czerwiec",
            "jul july juli juillet julio lipiec",
            "aug august augusti aout agosto sierpien",
            "sep sept september septembre septiembre wrzesien",
            "oct october okt oktober octobre octubre pazdziernik",
            "nov november novembre noviembre listopad",
            "dec december dez dezember decembre diciembre grudzien",
        ),
        start=1,
    )
    for name in names.split()
}

_CURRENCIES: Final = {
    "EUR": ("eur", "€", "euro", "euros"),
    "SEK": ("sek",),
    "NOK": ("nok",),
    "DKK": ("dkk",),
    "PLN": ("pln", "zł", "zl"),
    "GBP": ("gbp", "£", "pound", "pounds"),
    "CHF": ("chf", "fr", "sfr"),
    "USD": ("usd", "$", "us$"),
    "JPY": ("jpy", "¥", "yen", "円"),
}
_CURRENCY_OF: Final = {spelling: code for code, spellings in _CURRENCIES.items() for spelling in spellings}
_KRONA_OF_COUNTRY: Final = {"SE": "SEK", "NO": "NOK", "DK": "DKK"}

_YEAR_FIRST: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]\d{1,2}:\d{2}.*)?")
_JAPANESE: Final = re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日")
_NUMBERS: Final = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})")
_DAY_MONTH: Final = re.compile(r"(\d{1,2})\.?\s+(?:de\s+)?([a-z]+)\.?\s+(?:de\s+)?(\d{4})")
_MONTH_DAY: Final = re.compile(r"([a-z]+)\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})")

_AMOUNT_AND_WORD: Final = re.compile(r"(?P<before>[^\d+-]*)(?P<number>[+-]?\d[\d.,'\u2019\s]*)(?P<after>\D*)")
# What the lead bytes of UTF-8 for European letters and for punctuation become, and any byte after them.
_WRONGLY_DECODED: Final = re.compile(
    r"[\u00c2-\u00c5\u00e2][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    r"\u2013\u2014\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]"
)


@dataclass(frozen=True)
class Money:
    """An amount in one currency.

    Attributes:
        amount: In the currency's main unit, with as many decimals as the currency has.
        currency: ISO 4217.
    """

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount:,f} {self.currency}"


class AmbiguousCurrencyError(ValueError):
    """Several currencies are written like this and nothing says which one is meant."""


def clean_text(text: str) -> str:
    """Return the text without surrounding blanks, with each inner run of blanks as one space.

    Line breaks inside a text are kept.
    """
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(re.sub(r"[^\S\n]+", " ", line).strip() for line in text.strip().split("\n"))


def repair_text(text: str) -> str:
    """Undo one wrong decoding: UTF-8 that was once read as Windows-1252 or Latin-1 (`JosÃ©` is `José`).

    A text that does not look like that, or that does not decode back, is returned unchanged.
    """
    if not _WRONGLY_DECODED.search(text):
        return text
    # Windows-1252 leaves five bytes undefined which decoders of the web pass through, hence the two steps.
    raw = bytearray()
    for character in text:
        try:
            raw += character.encode("cp1252")
        except UnicodeEncodeError:
            if ord(character) > 0xFF:
                return text
            raw.append(ord(character))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return text


def parse_date(text: str) -> date:
    """Read a day.

    Numbers with dots or slashes are day first, unless only month first is possible.

    Raises:
        ValueError: It is no day of the calendar, or its year is not plausible.
    """
    plain = unicodedata.normalize("NFKD", clean_text(text).lower())
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    if found := _YEAR_FIRST.fullmatch(plain.upper()) or _JAPANESE.fullmatch(plain):
        year, month, day = (int(part) for part in found.groups())
    elif found := _NUMBERS.fullmatch(plain):
        day, month, year = int(found[1]), int(found[3]), int(found[4])
        if found[2] == "/" and month > 12 >= day:
            day, month = month, day
    elif found := _DAY_MONTH.fullmatch(plain):
        day, month, year = int(found[1]), _MONTHS.get(found[2], 0), int(found[3])
    elif found := _MONTH_DAY.fullmatch(plain):
        day, month, year = int(found[2]), _MONTHS.get(found[1], 0), int(found[3])
    else:
        raise ValueError("not a date")
    if month == 0:
        raise ValueError("not the name of a month")
    if year not in _PLAUSIBLE_YEARS:
        raise ValueError(f"the year {year} is not plausible")
    try:
        return date(year, month, day)
    except ValueError:
        raise ValueError("no such day in the calendar") from None


def parse_amount(text: str) -> Decimal:
    """Read a number with any of the usual separators.

    When both a dot and a comma occur, the last one is the decimal sign. A single one followed by exactly
    three digits separates thousands, otherwise it is the decimal sign.

    Raises:
        ValueError: It is not a number, or its separators do not form groups of three digits.
    """
    plain = re.sub(r"[\s'\u2019]", "", text)
    if not re.fullmatch(r"[+-]?\d[\d.,]*", plain):
        raise ValueError("not an amount")
    sign, digits = ("-", plain[1:]) if plain[0] == "-" else ("", plain.lstrip("+"))
    last = max(digits.rfind("."), digits.rfind(","))
    whole, fraction = digits, ""
    if last >= 0:
        tail = digits[last + 1 :]
        both = "." in digits and "," in digits
        repeated = digits.count(digits[last]) > 1
        thousands = not both and (repeated or (len(tail) == 3 and digits[:last] != "0" and last <= 3))
        if not thousands:
            whole, fraction = digits[:last], tail
            if not 1 <= len(fraction) <= 2:
                raise ValueError("not an amount: one or two decimals are expected")
    groups = re.split(r"[.,]", whole)
    if len(groups) > 1 and (not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:])):
        raise ValueError("not an amount: thousands are not grouped by three digits")
    return Decimal(f"{sign}{''.join(groups)}.{fraction or '0'}")


def parse_currency(text: str, country: str | None = None) -> str:
    """Read a currency by its code, sign or name.

    Args:
        text: As written.
        country: ISO 3166 code of the customer's country; tells the kronor of three countries apart.

    Raises:
        AmbiguousCurrencyError: `kr` without a country that uses it.
        ValueError: The spelling is unknown.
    """
    plain = clean_text(text).lower().rstrip(".")
    if plain in ("kr", "krona", "kronor"):
        code = _KRONA_OF_COUNTRY.get(country or "")
        if code is None:
            raise AmbiguousCurrencyError(
                "'kr' may be SEK, NOK or DKK and the customer's country does not say"
            )
        return code
    code = _CURRENCY_OF.get(plain)
    if code is None:
        raise ValueError("unknown currency")
    return code


def parse_money(amount: str, currency: str = "", country: str | None = None) -> Money:
    """Read an amount whose currency stands in a cell of its own or beside the number.

    Raises:
        ValueError: Amount or currency cannot be read; the text says which.
    """
    found = _AMOUNT_AND_WORD.fullmatch(clean_text(amount))
    if found is None:
        raise ValueError("not an amount")
    beside = clean_text(found["before"] + " " + found["after"])
    if beside and clean_text(currency):
        raise ValueError("the amount has a word beside it and a currency of its own")
    code = parse_currency(beside or currency, country)
    decimals = Decimal(1) if code == "JPY" else Decimal("0.01")
    value = parse_amount(found["number"])
    if value != value.quantize(decimals):
        raise ValueError(f"{code} has no such decimals")
    return Money(value.quantize(decimals), code)
