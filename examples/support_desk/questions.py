"""Reads what a person asks: identifiers, an amount, the words to search for, and what they want. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from examples.support_desk.cell_values import Money, parse_money
from examples.support_desk.search import split_words

__all__ = ["Question", "Wish", "read_question"]

Wish = Literal["refund", "refund_status", "order", "count", "greeting", "search"]

_ORDER_ID: Final = re.compile(r"\bFF[-\s]?(\d{5})\b", re.IGNORECASE | re.ASCII)
_CUSTOMER_ID: Final = re.compile(r"\bC-(\d{3})\b", re.IGNORECASE | re.ASCII)
_TICKET_ID: Final = re.compile(r"\bT-(\d{4})\b", re.IGNORECASE | re.ASCII)
_EMAIL: Final = re.compile(r"[^\s@<>(),;]+@[^\s@<>(),;]+\.[a-z]{2,}", re.IGNORECASE)
_NAME: Final = re.compile(
    r"(?<![.!?]\s)(?<!^)\b"
    r"([A-ZÀ-Þ][\w'\u2019-]+(?:\s+(?:van\s+|von\s+|de\s+|der\s+|di\s+)*[A-ZÀ-ÞŻŹŚŁĆŠČŽ][\w'\u2019-]+)+)"
)
_AMOUNT: Final = re.compile(
    r"(?<![-\w])(\d[\d.,' ]*\d|\d)\s?(EUR|SEK|NOK|DKK|PLN|GBP|CHF|USD|JPY|€|£|\$|¥|zł|euros?)(?!\w)"
    r"|(€|£|\$|¥)\s?(\d[\d.,']*)",
    re.IGNORECASE,
)

_REFUND: Final = (
    r"(?:refund\w*|money back|reimburs\w*|erstatt\w*|geld zurück|rembours\w*|reembols\w*|"
    r"återbetal\w*|pengarna tillbaka|zwrot pieni\w*)"
)
_ABOUT_REFUND: Final = re.compile(_REFUND, re.IGNORECASE)
_REFUND_STATUS: Final = re.compile(
    rf"^(?:and\s+|so\s+)?(?:did|has|have|was|were)\b[^.!]*{_REFUND}"
    rf"|{_REFUND}[^.!]*\b(?:go|gone|went)\s+(?:really\s+)?through"
    rf"|\b(?:which|what|list|show|check)\b[^.!]*\b{_REFUND}[^.!]*\b(?:sent|made|accepted|done|status|have|is|are)\b"
    rf"|\bstatus of\b[^.!]*{_REFUND}|\blist\b[^.!]*\brefunds\b",
    re.IGNORECASE | re.MULTILINE,
)
_REFUND_POSSIBLE: Final = re.compile(
    rf"\b(?:can|may|could|is|are|would)\b[^.!?]*\b(?:be|get|still|eligible|entitled)\b[^.!?]*{_REFUND}|refundable"
    rf"|\bhow (?:long|much|many|do|does)\b[^.!?]*{_REFUND}",
    re.IGNORECASE,
)
_REFUND_ORDERED: Final = re.compile(
    rf"^\s*(?:please\s+|ok(?:ay)?[,.]?\s+|yes[,.]?\s+|then\s+|and\s+)*refund\b"
    rf"|\bplease\b[^.!?]*{_REFUND}"
    rf"|\b(?:want|like|need|wants|give)\b[^.!?]*{_REFUND}",
    re.IGNORECASE | re.MULTILINE,
)
_COUNT: Final = re.compile(
    r"\b(?:how many|count|number of|total of)\b[^.!?]*\borders?\b|\borders?\b[^.!?]*\bby status\b",
    re.IGNORECASE,
)
_GREETING: Final = re.compile(
    r"\s*(?:hi|hello|hey|thanks?|thank you|danke|merci|gracias|tack|help|what can you do)\b[^\d]{0,24}",
    re.IGNORECASE,
)

# Words about the asking itself: they would only thin out a search.
_ASKING: Final = re.compile(
    r"\b(?:others?|else|report(?:s|ed)?|polic(?:y|ies)|rules?|tickets?|orders?|ordered|desk|said|write|wrote|"
    r"written|complain(?:s|ed|ts?)?|ask(?:s|ed)?|think|tried|help|hello|thanks?|about|order's|case|cases|"
    r"similar|same|problem|issue|question|say|says|people|possible|way)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Question:
    """What a message asks for.

    Attributes:
        text: The message.
        wish: What kind of answer it wants.
        order_ids: Orders it names, or the latest one named before when it speaks of "it".
        customer_ids: Customers it names by ID or e-mail address.
        names: What may be names of people.
        ticket_ids: Tickets it names.
        amount: An amount with a currency.
        words: What to search for: the text without identifiers, stop words and words about asking.
    """

    text: str
    wish: Wish
    order_ids: tuple[str, ...]
    customer_ids: tuple[str, ...]
    names: tuple[str, ...]
    ticket_ids: tuple[str, ...]
    amount: Money | None
    words: str


def read_question(text: str, earlier: Sequence[str] = ()) -> Question:
    """Read a message.

    Args:
        text: The message.
        earlier: The user's earlier messages, oldest first; "refund it" means the order named last.
    """
    order_ids = _find_order_ids(text)
    if not order_ids and (_ABOUT_REFUND.search(text) or re.search(r"\b(?:it|that order|this order)\b", text)):
        named = [found for message in earlier for found in _find_order_ids(message)]
        order_ids = tuple(named[-1:]) if re.search(r"\b(?:it|that|this|the order)\b", text) else ()
    emails = tuple(email.rstrip(".").lower() for email in _EMAIL.findall(text))
    customer_ids = tuple(f"C-{digits}" for digits in _CUSTOMER_ID.findall(text)) + emails
    words = text
    for pattern in (_EMAIL, _ORDER_ID, _CUSTOMER_ID, _TICKET_ID, _ASKING):
        words = pattern.sub(" ", words)
    return Question(
        text=text,
        wish=_decide_wish(text, bool(order_ids)),
        order_ids=order_ids,
        customer_ids=tuple(dict.fromkeys(customer_ids)),
        names=tuple(dict.fromkeys(_NAME.findall(text))),
        ticket_ids=tuple(dict.fromkeys(f"T-{digits}" for digits in _TICKET_ID.findall(text))),
        amount=_find_amount(text),
        words=" ".join(word for word in re.findall(r"[\w'\u2019-]+", words) if split_words(word)),
    )


def _find_order_ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"FF-{digits}" for digits in _ORDER_ID.findall(text)))


def _find_amount(text: str) -> Money | None:
    found = _AMOUNT.search(text)
    if found is None:
        return None
    try:
        return parse_money(found[1] or found[4], found[2] or found[3])
    except ValueError:
        return None


def _decide_wish(text: str, names_order: bool) -> Wish:
    if _REFUND_STATUS.search(text):
        return "refund_status"
    if _ABOUT_REFUND.search(text) and not _REFUND_POSSIBLE.search(text):
        if names_order or _REFUND_ORDERED.search(text):
            return "refund"
        return "search"
    if names_order:
        return "order"
    if _COUNT.search(text):
        return "count"
    if _GREETING.fullmatch(text):
        return "greeting"
    return "search"
