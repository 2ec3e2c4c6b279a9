"""What a model call costs, and which names mean the same model."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dex_agents.errors import InvalidInputError
from dex_agents.spend_limits import ModelPrice, PriceTable, load_price_table
from dex_agents.wire.usage import AgentUsage

PRICE = ModelPrice(input=Decimal(2), output=Decimal(8), cached_input=Decimal("0.5"), cache_write=Decimal(3))


@pytest.mark.parametrize(
    ("usage", "nano_units"),
    [
        (AgentUsage(), 0),
        (AgentUsage(input_tokens=1_000_000), 2_000_000_000),
        (AgentUsage(output_tokens=1), 8_000),
        (AgentUsage(input_tokens=1_000_000, cached_input_tokens=400_000), 1_400_000_000),
        (AgentUsage(input_tokens=10, cache_write_tokens=10), 30_000),
        (AgentUsage(input_tokens=10, cached_input_tokens=20), 10_000),
    ],
)
def test_cached_tokens_have_their_own_price_and_nothing_is_negative(
    usage: AgentUsage, nano_units: int
) -> None:
    assert PRICE.cost_of(usage) == nano_units


def test_a_part_of_the_smallest_unit_is_rounded_up() -> None:
    price = ModelPrice(input=Decimal("0.0001"), output=Decimal(0))
    assert price.cost_of(AgentUsage(input_tokens=1)) == 1


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-5-mini", "gpt-5-mini"),
        ("GPT-5-mini-2025-08-07", "gpt-5-mini"),
        ("openrouter/openai/gpt-5", "gpt-5"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("gpt-4o-latest", "gpt-4o"),
        ("gpt-5-pro", None),
        ("claude-sonnet-4-7", None),
        ("my-gpt-5", None),
        ("", None),
        (None, None),
    ],
)
def test_a_date_or_a_provider_is_no_other_model_but_another_ending_is(
    name: str | None, known: str | None
) -> None:
    table = load_price_table()
    assert table.find(name) is (None if known is None else table.prices[known])


def test_the_prices_of_the_package_can_all_be_used() -> None:
    table = load_price_table()
    assert table.currency == "USD"
    for name, price in table.prices.items():
        assert table.find(name) is price
        assert price.cost_of(AgentUsage(input_tokens=1_000, output_tokens=1_000)) > 0


@pytest.mark.parametrize("price", [-1, "nan", "inf", "much"])
def test_a_price_that_is_no_amount_is_refused_by_name(price: Any) -> None:
    with pytest.raises(InvalidInputError, match="output"):
        ModelPrice(input=Decimal(1), output=price)


def test_an_own_table_may_name_any_model() -> None:
    table = PriceTable(prices={"house-model": PRICE}, currency="EUR")
    assert table.find("house-model") is PRICE
    assert table.find("gpt-5") is None
