from __future__ import annotations

from pathlib import Path

import pytest

from examples.support_desk.refund_ledger import (
    AcceptedRefund,
    RefundLedger,
    count_repeated_refunds,
    read_ledger,
)


def _accept(ledger: RefundLedger, key: str, order_id: str = "FF-10001") -> AcceptedRefund:
    return ledger.accept(
        idempotency_key=key,
        order_id=order_id,
        amount="5.00",
        currency="EUR",
        reason="naïve\nreason",
        accepted_at="2026-11-30T10:00:00+00:00",
    )


def test_an_accepted_refund_is_one_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first, second = _accept(RefundLedger(path), "k1"), _accept(RefundLedger(path), "k2", "FF-10002")
    assert (first.refund_id, second.refund_id) == ("RF-0001", "RF-0002")
    assert read_ledger(path) == (first, second)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_a_provider_pays_a_repeat_and_the_count_shows_it(tmp_path: Path) -> None:
    ledger = RefundLedger(tmp_path / "ledger.jsonl")
    _accept(ledger, "k1", "FF-10001")
    _accept(ledger, "k2", "FF-10002")
    assert count_repeated_refunds(ledger.entries) == 0
    _accept(ledger, "k1", "FF-10003")
    assert count_repeated_refunds(ledger.entries) == 1, "the same key again"
    _accept(ledger, "k3", "FF-10002")
    assert count_repeated_refunds(ledger.entries) == 2, "the same order under another key"


def test_a_ledger_that_does_not_exist_has_no_refunds(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "none.jsonl") == ()


@pytest.mark.parametrize("line", ["{}", "[]", "not json", '{"refund_id": "RF-0001"}'])
def test_a_line_that_is_no_refund_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"ledger\.jsonl:1: not an accepted refund"):
        read_ledger(path)
