"""A limit on what one turn may consume, told from the session's own state alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from dex_agents import texts
from dex_agents.errors import InvalidInputError
from dex_agents.session.spend import SpendCheck, SpendRefused
from dex_agents.spend_limits.prices import NANO_UNITS, PriceTable, load_price_table, require_money
from dex_agents.wire.spend import SpendReport

__all__ = ["TurnBudget"]


@dataclass(frozen=True, kw_only=True)
class TurnBudget:
    """Refuses a turn's next model call once the turn has used up what it may; a `SpendLimiter`.

    It looks at what the calls before have consumed, so the call that crosses the limit is still made.
    Attempts that were lost are not counted: the session does not know what they consumed.

    Attributes:
        max_calls: Model calls of a turn, summaries included; `None` for any number.
        max_tokens: Input and output tokens of a turn; `None` for any number.
        max_cost: Money of a turn, in the currency of `prices`; `None` for any amount. A turn that used a
            model without a price is refused: what has no price cannot be limited.
        prices: What tokens cost.

    Raises:
        InvalidInputError: A number is out of its range, or there is no limit at all.

    Durability:
        Keeps nothing: the same committed state gives the same answer on every Worker.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | float | None = None
    prices: PriceTable = field(default_factory=load_price_table)

    def __post_init__(self) -> None:
        """Check every limit."""
        if self.max_calls is None and self.max_tokens is None and self.max_cost is None:
            raise InvalidInputError("max_calls", "a budget needs a limit: calls, tokens or cost")
        for name in ("max_calls", "max_tokens"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidInputError(name, f"must be at least 1, got {number}")
        if self.max_cost is not None:
            require_money("max_cost", self.max_cost)

    def check(self, check: SpendCheck) -> SpendRefused | None:
        """Say whether the turn may make another model call."""
        usages = [entry.usage for entry in check.turn_usage]
        calls = sum(usage.model_calls for usage in usages)
        if self.max_calls is not None and calls >= self.max_calls:
            return SpendRefused(texts.turn_budget_spent(f"{self.max_calls} model calls"))
        tokens = sum(usage.input_tokens + usage.output_tokens for usage in usages)
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return SpendRefused(texts.turn_budget_spent(f"{self.max_tokens} tokens"))
        if self.max_cost is None:
            return None
        cost = 0
        for entry in check.turn_usage:
            price = self.prices.find(entry.model)
            if price is None:
                return SpendRefused(texts.model_without_price(entry.model))
            cost += price.cost_of(entry.usage)
        if cost >= require_money("max_cost", self.max_cost) * NANO_UNITS:
            return SpendRefused(texts.turn_budget_spent(f"{self.max_cost} {self.prices.currency}"))
        return None

    def report(self, report: SpendReport) -> None:
        """Do nothing: the session itself adds up what a turn consumes."""
