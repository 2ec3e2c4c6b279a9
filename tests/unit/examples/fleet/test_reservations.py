from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.fleet.reservations import Reservation, ReservationBook


def _reserve(book: ReservationBook, key: str) -> Reservation:
    return book.reserve(idempotency_key=key, session_id="order-1", item="K-001", quantity=2)


def test_a_key_is_reserved_once_and_a_repeat_gets_the_first_answer(tmp_path: Path) -> None:
    first = _reserve(ReservationBook(tmp_path), "k1")
    again = _reserve(ReservationBook(tmp_path), "k1")
    book = ReservationBook(tmp_path)
    assert again == first
    assert book.entries() == [first]
    assert book.count_repeats() == 1


def test_another_key_is_another_reservation(tmp_path: Path) -> None:
    book = ReservationBook(tmp_path)
    assert _reserve(book, "k1").reservation_id != _reserve(book, "k2").reservation_id
    assert (len(book.entries()), book.count_repeats()) == (2, 0)


def test_many_senders_of_one_key_make_one_reservation(tmp_path: Path) -> None:
    books = [ReservationBook(tmp_path) for _ in range(24)]
    with ThreadPoolExecutor(8) as senders:
        answers = list(senders.map(_reserve, books, ["k1"] * len(books)))
    assert len(set(answers)) == 1
    assert ReservationBook(tmp_path).count_repeats() == 23
    assert not list(tmp_path.glob("*.draft"))
