"""Spend limiters that an application can use as they are: one a turn, and one shared by a whole host.

Here live the price table (`prices`, `prices.json`), the limit of one turn (`turn_budget`) and the counters
of a host (`sqlite_limiter`). No model is called here and no session is known: that is the other side of the
contract, `dex_agents.session.spend`. Begin with `turn_budget`.
"""

from dex_agents.spend_limits.prices import ModelPrice, PriceTable, load_price_table
from dex_agents.spend_limits.sqlite_limiter import SpendLimit, SqliteSpendLimiter
from dex_agents.spend_limits.turn_budget import TurnBudget

__all__ = [
    "ModelPrice",
    "PriceTable",
    "SpendLimit",
    "SqliteSpendLimiter",
    "TurnBudget",
    "load_price_table",
]
