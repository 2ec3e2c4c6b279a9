"""Limits that the sessions and processes of one host share, in one SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from dex_agents import texts
from dex_agents.errors import InvalidInputError
from dex_agents.session.spend import SpendCheck, SpendRefused
from dex_agents.spend_limits.prices import NANO_UNITS, PriceTable, load_price_table, require_money
from dex_agents.wire.spend import SpendReport

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ScopeFunction", "SpendLimit", "SqliteSpendLimiter"]

_BUSY_SECONDS: Final = 10.0
"""How long one process waits for another that writes."""

_KEPT_REPORTS_SECONDS: Final = 30 * 24 * 3600.0
"""A report that comes again comes within seconds; its ID is kept far longer."""

_FOREVER: Final = 0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS reports (call_id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS reports_by_time ON reports (at);
CREATE TABLE IF NOT EXISTS spent (
    scope TEXT NOT NULL, member TEXT NOT NULL, window_seconds INTEGER NOT NULL, window INTEGER NOT NULL,
    calls INTEGER NOT NULL, tokens INTEGER NOT NULL, nano_units INTEGER NOT NULL, unpriced INTEGER NOT NULL,
    PRIMARY KEY (scope, member, window_seconds, window)
) WITHOUT ROWID;
"""

ScopeFunction: TypeAlias = Callable[[SpendCheck | SpendReport], Mapping[str, str]]
"""Returns which member of each scope a call belongs to; pure, and equal for the check and its report."""


@dataclass(frozen=True, kw_only=True)
class SpendLimit:
    """What each member of a scope may consume.

    Attributes:
        max_calls: Model calls; `None` for any number.
        max_tokens: Input and output tokens; `None` for any number.
        max_cost: Money in the currency of the price table; `None` for any amount.
        window: After which time the count begins anew, in whole seconds from 1970; `None` for never.

    Raises:
        InvalidInputError: A number is out of its range, or there is no limit at all.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | float | None = None
    window: timedelta | None = None

    def __post_init__(self) -> None:
        """Check every number."""
        if self.max_calls is None and self.max_tokens is None and self.max_cost is None:
            raise InvalidInputError("max_calls", "a limit needs a number: calls, tokens or cost")
        for name in ("max_calls", "max_tokens"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise InvalidInputError(name, f"must be at least 0, got {number}")
        if self.max_cost is not None:
            require_money("max_cost", self.max_cost)
        if self.window is not None and self.window < timedelta(seconds=1):
            raise InvalidInputError("window", "must be at least one second")

    @property
    def window_seconds(self) -> int:
        """The window in seconds; 0 for never."""
        return _FOREVER if self.window is None else int(self.window.total_seconds())


@dataclass(frozen=True)
class _Spent:
    calls: int = 0
    tokens: int = 0
    nano_units: int = 0
    unpriced: int = 0


class SqliteSpendLimiter:
    """Counts model calls, tokens and money by scope, exactly once each; a `SpendLimiter`.

    A scope is a name of the application's choosing, such as `tenant`, with a limit that holds for each of its
    members. Two scopes are always known: `session`, with the session's ID, and `host`, with one member.

    Calls that run at the same time are all asked before any of them is reported, so a limit may be passed by
    as many calls as run at once.

    Durability:
        Each report is one transaction that also keeps its `call_id`: one that comes again, from this process
        or another, changes nothing. What is committed survives the death of any process; a loss of power may
        lose the latest reports.
    """

    def __init__(
        self,
        path: str | Path,
        limits: Mapping[str, SpendLimit],
        *,
        scopes: ScopeFunction | None = None,
        prices: PriceTable | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file, or make it.

        Args:
            path: The file; on a local disk, since processes share it by locks.
            limits: By scope; a scope that a call has no member of does not limit it.
            scopes: The members of the application's own scopes, such as a tenant from the session's settings.
            prices: What tokens cost; by default the list prices of this package.
            clock: Seconds since 1970.

        Raises:
            InvalidInputError: There is no limit.
            sqlite3.Error: The file cannot be opened.
        """
        if not limits:
            raise InvalidInputError("limits", "must not be empty")
        self._limits = dict(limits)
        self._scopes = scopes
        self._prices = load_price_table() if prices is None else prices
        self._clock = clock
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_SCHEMA)

    async def check(self, check: SpendCheck) -> SpendRefused | None:
        """Say whether every limit leaves room for another call."""
        return await asyncio.to_thread(self._check, check)

    async def report(self, report: SpendReport) -> None:
        """Count a call, unless it was counted before."""
        await asyncio.to_thread(self._report, report)

    def close(self) -> None:
        """Close the file; the limiter is of no use afterwards."""
        with self._lock:
            self._database.close()

    def _check(self, check: SpendCheck) -> SpendRefused | None:
        members = self._members_of(check)
        with self._lock:
            for scope, member in members.items():
                limit = self._limits[scope]
                reached = self._find_reached(limit, self._read(scope, member, limit))
                if reached is not None:
                    return SpendRefused(texts.spend_limit_reached(scope, member, reached))
        return None

    def _find_reached(self, limit: SpendLimit, spent: _Spent) -> str | None:
        if limit.max_calls is not None and spent.calls >= limit.max_calls:
            return f"{limit.max_calls} model calls"
        if limit.max_tokens is not None and spent.tokens >= limit.max_tokens:
            return f"{limit.max_tokens} tokens"
        if limit.max_cost is None:
            return None
        if spent.unpriced:
            return f"{limit.max_cost} {self._prices.currency}: a model was used that has no price"
        if spent.nano_units >= require_money("max_cost", limit.max_cost) * NANO_UNITS:
            return f"{limit.max_cost} {self._prices.currency}"
        return None

    def _report(self, report: SpendReport) -> None:
        now = self._clock()
        price = self._prices.find(report.model)
        added = (
            report.usage.model_calls,
            report.usage.input_tokens + report.usage.output_tokens,
            0 if price is None else price.cost_of(report.usage),
            int(price is None),
        )
        members = self._members_of(report)
        with self._lock, self._transaction():
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO reports (call_id, at) VALUES (?, ?)", (report.call_id, now)
            )
            if cursor.rowcount == 0:
                return
            for scope, member in members.items():
                seconds = self._limits[scope].window_seconds
                self._database.execute(
                    "INSERT INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "calls = calls + excluded.calls, tokens = tokens + excluded.tokens, "
                    "nano_units = nano_units + excluded.nano_units, unpriced = unpriced + excluded.unpriced",
                    (scope, member, seconds, self._window(seconds), *added),
                )
            self._database.execute("DELETE FROM reports WHERE at < ?", (now - _KEPT_REPORTS_SECONDS,))

    def _read(self, scope: str, member: str, limit: SpendLimit) -> _Spent:
        seconds = limit.window_seconds
        with closing(
            self._database.execute(
                "SELECT calls, tokens, nano_units, unpriced FROM spent "
                "WHERE scope = ? AND member = ? AND window_seconds = ? AND window = ?",
                (scope, member, seconds, self._window(seconds)),
            )
        ) as rows:
            row = rows.fetchone()
        return _Spent() if row is None else _Spent(*row)

    def _window(self, seconds: int) -> int:
        return 0 if seconds == _FOREVER else int(self._clock() // seconds)

    def _members_of(self, call: SpendCheck | SpendReport) -> dict[str, str]:
        members = {"session": call.session_id, "host": ""}
        if self._scopes is not None:
            members.update(self._scopes(call))
        return {scope: member for scope, member in members.items() if scope in self._limits}

    @contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
