"""What an engine can be told, and what of it makes sense."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dex_agents.engine.runs import RUNS_IN_MEMORY
from dex_agents.engine.store.database import Synchronous
from dex_agents.engine.store.writer import HISTORY_EVENTS

MIN_RETENTION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of an engine; `LocalEngine` says what they mean.

    Raises:
        ValueError: One of them makes no sense; the message names it.
    """

    listen: str | None = None
    synchronous: Synchronous = "full"
    runs_in_memory: int = RUNS_IN_MEMORY
    retention: timedelta | None = None
    history_events: int = HISTORY_EVENTS
    token: str | None = None
    drain: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', not {self.synchronous!r}")
        if self.runs_in_memory < 0:
            raise ValueError(f"runs_in_memory must not be negative, not {self.runs_in_memory}")
        if self.retention is not None and self.retention < MIN_RETENTION:
            raise ValueError(f"retention must be at least {MIN_RETENTION}, not {self.retention}")
        if self.history_events < 0:
            raise ValueError(f"history_events must not be negative, not {self.history_events}")
        if self.drain < timedelta(0):
            raise ValueError(f"drain must not be negative, not {self.drain}")
        if self.token is not None and (
            not self.token or not self.token.isascii() or not self.token.isprintable() or " " in self.token
        ):
            raise ValueError("token must be printable ASCII without spaces, and not empty")
