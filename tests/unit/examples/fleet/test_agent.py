from __future__ import annotations

import json
import re

from dex_agents.builtin_loop import (
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelReply,
)
from examples.fleet.agent import ITEMS, reply_as_warehouse_model, write_order


def _reply(text: str, *results: tuple[str, str]) -> ScriptedModelReply:
    items: list[ModelInputItem] = [ModelUserTextItem(text)]
    for number, (tool_name, output) in enumerate(results):
        call = ModelToolCall(f"c{number}", tool_name, "{}")
        items += [ModelOutputItem("", (call,)), ModelToolResultItem(call.model_call_id, tool_name, output)]
    return reply_as_warehouse_model(ModelRequest("", tuple(items)))


_STOCK, _PRICE = ("check_stock", '{"stock": 7}'), ("check_price", '{"price_eur": 11}')


def test_every_order_names_an_item_and_a_quantity() -> None:
    for number in range(200):
        found = re.fullmatch(r"Reserve ([1-5]) of (K-\d{3})\.", write_order(number))
        assert found is not None
        assert found[2] in ITEMS


def test_it_looks_at_stock_and_price_at_once_before_it_reserves() -> None:
    first = _reply("Reserve 3 of K-007.")
    assert [call.tool_name for call in first.tool_calls] == ["check_stock", "check_price"]
    second = _reply("Reserve 3 of K-007.", _STOCK, _PRICE)
    assert [(call.tool_name, call.arguments) for call in second.tool_calls] == [
        ("reserve_stock", {"item": "K-007", "quantity": 3})
    ]


def test_the_answer_is_made_from_the_results() -> None:
    done = ("reserve_stock", json.dumps({"reservation_id": "R-1"}))
    assert (
        _reply("Reserve 3 of K-007.", _STOCK, _PRICE, done).text
        == "3 of K-007 for 33 EUR are set aside as R-1."
    )


def test_it_reserves_nothing_when_there_is_too_little_or_a_read_failed() -> None:
    short = _reply("Reserve 8 of K-007.", _STOCK, _PRICE)
    assert (short.tool_calls, short.text) == ((), "There are only 7 of K-007, so nothing was reserved.")
    failed = _reply("Reserve 3 of K-007.", _STOCK, ("check_price", "The tool call failed: no answer"))
    assert (failed.tool_calls, failed.text) == ((), "K-007 was not reserved. The tool call failed: no answer")
