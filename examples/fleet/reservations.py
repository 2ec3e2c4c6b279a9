"""The warehouse's book of reservations, outside every session store: one file for each idempotency key."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Reservation", "ReservationBook"]


@dataclass(frozen=True)
class Reservation:
    """Goods set aside for one session.

    Attributes:
        reservation_id: Follows from the key, such as `R-1f0c2a9b4d`.
        idempotency_key: What the sender named the request by.
        session_id: For whom.
        item: What.
        quantity: How many.
        worker: The process that sent it.
    """

    reservation_id: str
    idempotency_key: str
    session_id: str
    item: str
    quantity: int
    worker: int


class ReservationBook:
    """Takes each idempotency key once, from any number of processes.

    Args:
        folder: Where the book is; made when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def reserve(self, *, idempotency_key: str, session_id: str, item: str, quantity: int) -> Reservation:
        """Set goods aside, or return what was set aside under the same key before.

        When this returns, the reservation survives the loss of power.
        """
        digest = hashlib.sha256(idempotency_key.encode()).hexdigest()
        path = self._folder / f"{digest}.json"
        reservation = Reservation(
            f"R-{digest[:10]}", idempotency_key, session_id, item, quantity, worker=os.getpid()
        )
        draft = self._folder / f"{uuid.uuid4().hex}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(reservation), file)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link appears whole or not at all, and only once: the first sender of a key wins.
            path.hardlink_to(draft)
        except FileExistsError:
            self._note_repeat(idempotency_key)
            return _read(path)
        finally:
            draft.unlink()
        self._sync_folder()
        return reservation

    def entries(self) -> list[Reservation]:
        """Return every reservation, in no order."""
        return [_read(path) for path in self._folder.glob("*.json")]

    def count_repeats(self) -> int:
        """Return how many requests were recognised as repeats."""
        path = self._folder / "repeats.log"
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def _note_repeat(self, idempotency_key: str) -> None:
        with (self._folder / "repeats.log").open("a", encoding="utf-8") as file:
            file.write(f"{idempotency_key}\n")

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(path: Path) -> Reservation:
    return Reservation(**json.loads(path.read_text(encoding="utf-8")))
