from __future__ import annotations

from decimal import Decimal

import pytest

from examples.support_desk.cell_values import Money
from examples.support_desk.questions import Wish, read_question


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("Please refund FF-10432", "refund"),
        ("Refund FF-10440 please, the sole came off.", "refund"),
        ("I want my money back for FF-10371", "refund"),
        ("Could you refund FF-10432?", "refund"),
        ("Bitte FF-10432 erstatten", "refund"),
        ("please give me a refund", "refund"),
        ("Did the refund for FF-10432 go through?", "refund_status"),
        ("Was FF-10432 refunded?", "refund_status"),
        ("Which refunds have been sent?", "refund_status"),
        ("list all refunds", "refund_status"),
        ("Can FF-10432 still be refunded?", "order"),
        ("What is the status of FF-10458?", "order"),
        ("How many orders are delivered?", "count"),
        ("hello", "greeting"),
        ("Thanks!", "greeting"),
        ("how long do refunds take?", "search"),
        ("Where is my refund?", "search"),
        ("Is the refund window 30 days?", "search"),
        ("Do you ship to Iceland?", "search"),
        ("", "search"),
    ],
)
def test_the_wish_of_a_message_is_told(text: str, wish: Wish) -> None:
    assert read_question(text).wish == wish


def test_identifiers_are_found_in_any_spelling_and_once() -> None:
    question = read_question("ff 10432, FF-10440 and FF10432: c-203 wrote T-3096 as Jonas.Weber@example.net.")
    assert question.order_ids == ("FF-10432", "FF-10440")
    assert question.customer_ids == ("C-203", "jonas.weber@example.net")
    assert question.ticket_ids == ("T-3096",)


def test_only_the_words_of_the_matter_are_searched_for() -> None:
    question = read_question(
        "My tent pole snapped on FF-10432. What have others reported, what does the policy say?"
    )
    assert question.words == "tent pole snapped"
    assert read_question("???").words == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What has Astrid Lindholm ordered?", ("Astrid Lindholm",)),
        ("Tell me about Anneke van der Meer", ("Anneke van der Meer",)),
        ("orders of Siobhán Ní Bhriain please", ("Siobhán Ní Bhriain",)),
        ("Where is it? The Tent broke", ()),
    ],
)
def test_names_of_people_are_found(text: str, names: tuple[str, ...]) -> None:
    assert read_question(text).names == names


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("Refund 50 € of FF-10432", Money(Decimal("50.00"), "EUR")),
        ("refund €1.249,50 of FF-10432", Money(Decimal("1249.50"), "EUR")),
        ("refund 12,800 JPY of FF-10432", Money(Decimal(12800), "JPY")),
        ("refund FF-10432", None),
    ],
)
def test_an_amount_is_read_with_its_currency(text: str, amount: Money | None) -> None:
    assert read_question(text).amount == amount


def test_it_means_the_order_that_was_named_last() -> None:
    earlier = ["about FF-10432", "and FF-10440?", "thanks"]
    assert read_question("please refund it", earlier).order_ids == ("FF-10440",)
    assert read_question("please refund it").order_ids == ()
    assert read_question("please refund FF-10301", earlier).order_ids == ("FF-10301",)
