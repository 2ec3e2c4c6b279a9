"""Wall-clock time as an argument, so that decisions can be tested at any instant."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the engine what time it is.

    Timers, retry delays and deadlines are durable instants, hence Unix time and not a monotonic clock.
    """

    def now(self) -> float:
        """Return the current Unix time in seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the current Unix time in seconds."""
        return time.time()
