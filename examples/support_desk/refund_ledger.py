"""The payment provider's ledger: one line of JSON for each accepted refund, on disk before it is answered.

It stands outside every session store on purpose. What a line says has happened, whatever any record says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["AcceptedRefund", "RefundLedger", "count_repeated_refunds", "read_ledger"]


@dataclass(frozen=True)
class AcceptedRefund:
    """One refund that the provider accepted; the money is on its way.

    Attributes:
        refund_id: The provider's own, such as `RF-0001`.
        idempotency_key: What the sender named the request by.
        order_id: What it is for.
        amount: Decimal text in the currency's main unit.
        currency: ISO 4217.
        reason: The sender's words.
        accepted_at: UTC, RFC 3339.
    """

    refund_id: str
    idempotency_key: str
    order_id: str
    amount: str
    currency: str
    reason: str
    accepted_at: str


class RefundLedger:
    """Appends accepted refunds to a file; one process at a time.

    Args:
        path: The file; made when it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = list(read_ledger(path))

    @property
    def entries(self) -> Sequence[AcceptedRefund]:
        """Every accepted refund, oldest first."""
        return tuple(self._entries)

    def accept(
        self,
        *,
        idempotency_key: str,
        order_id: str,
        amount: str,
        currency: str,
        reason: str,
        accepted_at: str,
    ) -> AcceptedRefund:
        """Write a refund; when this returns it survives the loss of power.

        A repeat is accepted like any other: this provider pays whatever it is sent.
        """
        entry = AcceptedRefund(
            refund_id=f"RF-{len(self._entries) + 1:04d}",
            idempotency_key=idempotency_key,
            order_id=order_id,
            amount=amount,
            currency=currency,
            reason=reason,
            accepted_at=accepted_at,
        )
        line = json.dumps(asdict(entry), ensure_ascii=False) + "\n"
        with self._path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._entries.append(entry)
        return entry


def read_ledger(path: Path) -> tuple[AcceptedRefund, ...]:
    """Return every accepted refund, oldest first; none when the file does not exist.

    Raises:
        ValueError: A line is not an accepted refund; the text names it.
    """
    if not path.exists():
        return ()
    entries: list[AcceptedRefund] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entries.append(AcceptedRefund(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path.name}:{number}: not an accepted refund: {error}") from error
    return tuple(entries)


def count_repeated_refunds(entries: Sequence[AcceptedRefund]) -> int:
    """Count the refunds that repeat an earlier one: the same idempotency key, or the same order again.

    The desk's policy allows one refund for an order, so a second one is a repeat under whatever key.
    """
    keys: set[str] = set()
    orders: set[str] = set()
    repeated = 0
    for entry in entries:
        if entry.idempotency_key in keys or entry.order_id in orders:
            repeated += 1
        keys.add(entry.idempotency_key)
        orders.add(entry.order_id)
    return repeated
