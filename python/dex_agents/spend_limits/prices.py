"""What model calls cost: a table of list prices, and the arithmetic in whole nano-units of its currency."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from dex_agents.errors import InvalidInputError
from dex_agents.wire.usage import AgentUsage

__all__ = ["NANO_UNITS", "ModelPrice", "PriceTable", "load_price_table", "require_money"]

NANO_UNITS: Final = 1_000_000_000
"""A unit of the currency; sums of whole numbers do not drift."""

_TOKENS: Final = 1_000_000
"""Prices are for so many."""

# What providers and gateways append to a name without changing the price: a date, a revision, `latest`.
_SAME_MODEL: Final = re.compile(r"(?:[-@](?:\d{4}(?:-?\d\d){0,2}|v\d+|latest)|:[\w.-]+)*")


@dataclass(frozen=True, kw_only=True)
class ModelPrice:
    """Prices of one model for a million tokens, in the table's currency.

    Attributes:
        input: Input tokens that no cache held.
        output: Output tokens, reasoning included.
        cached_input: Input tokens read from the provider's cache; `None` for the price of `input`.
        cache_write: Input tokens written to that cache; `None` for the price of `input`.

    Raises:
        InvalidInputError: A price is below zero or no number.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        """Check every price."""
        for name in ("input", "output", "cached_input", "cache_write"):
            price = getattr(self, name)
            if price is not None:
                require_money(name, price)

    def cost_of(self, usage: AgentUsage) -> int:
        """Return what usage costs, in nano-units, rounded up."""
        cached, written = usage.cached_input_tokens, usage.cache_write_tokens
        # A provider that counts cached tokens beside the input ones must not make the rest negative.
        plain = max(0, usage.input_tokens - cached - written)
        cost = (
            plain * self.input
            + cached * (self.input if self.cached_input is None else self.cached_input)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        )
        return int((cost * NANO_UNITS / _TOKENS).to_integral_value(ROUND_CEILING))


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """Prices by model name.

    Attributes:
        prices: By the name that a provider gives the model, in lower case, without a date or revision.
        currency: What the prices are in; shown in reasons.
    """

    prices: Mapping[str, ModelPrice]
    currency: str = "USD"

    def find(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model, or `None`.

        A provider in front (`openai/gpt-5`) and a date or revision behind (`gpt-5-2025-08-07`) are the same
        model; any other name that only begins alike (`gpt-5-pro`, `claude-sonnet-4-7`) is not.

        Args:
            model: As the provider or a gateway names it.
        """
        if model is None:
            return None
        name = model.lower().rpartition("/")[2]
        for known in sorted(self.prices, key=len, reverse=True):
            start = name.find(known)
            if start == 0 or (start > 0 and name[start - 1] == "."):
                rest = name[start + len(known) :]
                if _SAME_MODEL.fullmatch(rest):
                    return self.prices[known]
        return None


@cache
def load_price_table() -> PriceTable:
    """Return the list prices that come with this package; see `prices.json` for their date."""
    data = resources.files("dex_agents.spend_limits").joinpath("prices.json").read_bytes()
    file = msgspec.json.decode(data, type=_PricesFile)
    return PriceTable(
        prices={name: ModelPrice(**prices) for name, prices in file.models.items()}, currency=file.currency
    )


def require_money(field: str, amount: Decimal | int | float | str) -> Decimal:
    """Return an amount of money as a decimal number.

    Raises:
        InvalidInputError: It is below zero or no finite number.
    """
    try:
        value = Decimal(str(amount))
    except InvalidOperation:
        raise InvalidInputError(field, f"must be a number, got {amount!r}") from None
    if not value.is_finite() or value < 0:
        raise InvalidInputError(field, f"must be a finite number of at least 0, got {amount!r}")
    return value


class _PricesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    as_of: str
    currency: str
    models: dict[str, dict[str, Decimal]]
