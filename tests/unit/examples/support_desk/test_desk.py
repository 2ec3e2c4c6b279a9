from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from examples.support_desk.cell_values import Money
from examples.support_desk.desk import MAX_HITS, SupportDesk
from examples.support_desk.file_reader import read_files


@pytest.fixture(scope="module")
def desk() -> SupportDesk:
    return SupportDesk(read_files())


def test_an_order_is_returned_with_its_source_and_what_the_policy_allows(desk: SupportDesk) -> None:
    order = desk.lookup_order("ff 10432")
    assert (order["total"], order["delivered_on"], order["source"]) == (
        "219.00 EUR",
        "2026-11-10",
        "orders.csv:137",
    )
    assert order["refund"] == {
        "allowed_by_policy": True,
        "obstacle": None,
        "last_day": "2026-12-10",
        "refunds_per_order": 1,
    }


def test_what_a_file_left_open_is_said_and_not_guessed(desk: SupportDesk) -> None:
    order = desk.lookup_order("FF-10318")
    assert (order["total"], order["doubts"]) == (None, ["amount: missing"])
    assert order["refund"]["allowed_by_policy"] is False


def test_an_order_that_is_not_there_is_not_found(desk: SupportDesk) -> None:
    assert desk.lookup_order("FF-99999") == {"found": False, "order_id": "FF-99999", "searched_orders": 165}
    with pytest.raises(ValueError, match="not an order ID"):
        desk.lookup_order("the tent")


@pytest.mark.parametrize(
    "wanted", ["C-204", "c204", "EMILIE.FOURNIER@example.net", "émilie fournier", "Fournier"]
)
def test_a_customer_is_found_by_id_address_or_name(desk: SupportDesk, wanted: str) -> None:
    assert desk.lookup_customer(wanted)["customer_id"] == "C-204"


def test_a_name_that_several_share_gives_the_candidates(desk: SupportDesk) -> None:
    answer = desk.lookup_customer("de Vries de Santis")
    assert answer["found"] is False
    assert {candidate["name"] for candidate in answer["candidates"]} == {"Bram de Vries", "Giulia De Santis"}
    assert desk.lookup_customer("Nobody Atall")["candidates"] == []
    with pytest.raises(ValueError, match="is needed"):
        desk.lookup_customer("  ")


def test_the_orders_of_a_customer_come_newest_first(desk: SupportDesk) -> None:
    orders = desk.list_orders_of_customer("C-203")["orders"]
    assert orders[0]["order_id"] == "FF-10432"
    days = [order["ordered_on"] for order in orders]
    assert days == sorted(days, reverse=True)


def test_tickets_are_found_by_words_by_ids_and_by_what_was_ordered(desk: SupportDesk) -> None:
    assert desk.search_tickets("Ridgeline pole snapped")["hits"][0]["id"] == "T-3096"
    assert desk.search_tickets("T-3096")["hits"][0]["from"] == "Jonas Weber"
    assert desk.search_tickets("FF-10432")["hits"][0]["order_id"] == "FF-10432"
    assert desk.search_tickets("quantum physics") == {"query": "quantum physics", "searched": 103, "hits": []}


def test_policies_are_found_with_their_place(desk: SupportDesk) -> None:
    (hit,) = desk.search_policies("ship to Iceland")["hits"]
    assert hit["quote"].startswith("We do not ship to Iceland yet")
    assert hit["source"].startswith("policies/shipping.md:")


def test_a_search_returns_at_most_the_limit(desk: SupportDesk) -> None:
    assert len(desk.search_orders("tent", 500)["hits"]) == MAX_HITS
    assert len(desk.search_orders("tent", 0)["hits"]) == 1


def test_counts_add_up(desk: SupportDesk) -> None:
    counts = desk.count_orders()
    assert sum(counts["by_status"].values()) == counts["orders"] == 165
    assert "602,150 JPY" in counts["delivered_totals"]


def test_a_refund_is_the_whole_order_or_a_part_of_it(desk: SupportDesk) -> None:
    whole = Money(Decimal("219.00"), "EUR")
    part = Money(Decimal("50.00"), "EUR")
    assert desk.require_refundable("FF-10432", None) == whole
    assert desk.require_refundable("FF-10432", part) == part
    for order_id, reason in (
        ("FF-10371", "window"),
        ("FF-10446", "limit"),
        ("FF-99999", "there is no order"),
    ):
        with pytest.raises(ValueError, match=reason):
            desk.require_refundable(order_id, None)


def test_the_window_is_counted_to_the_given_day() -> None:
    late = SupportDesk(read_files(), today=date(2026, 12, 11))
    assert late.lookup_order("FF-10432")["refund"]["allowed_by_policy"] is False
