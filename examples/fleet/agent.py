"""The warehouse agent: looks at stock and price at once, then reserves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from dex_agents import AgentSessionFlow, ToolEffect, ToolExecutionError
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionTool,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    ToolCallContext,
    create_builtin_agent_session_flow,
    function_tool,
)
from examples.fleet.reservations import ReservationBook

__all__ = ["ITEMS", "create_warehouse_flow", "reply_as_warehouse_model", "write_order"]

ITEMS: Final = {f"K-{number:03d}": (40 + number * 7 % 60, 5 + number * 13 % 95) for number in range(1, 41)}
"""Stock and price in EUR of each item."""

_ORDER: Final = re.compile(r"Reserve (\d+) of (K-\d{3})\.")


def write_order(number: int) -> str:
    """Return the message of the session with this number."""
    return f"Reserve {number % 5 + 1} of K-{number % len(ITEMS) + 1:03d}."


def create_warehouse_flow(book_folder: Path) -> AgentSessionFlow:
    """Make the session Flow of the warehouse agent.

    Args:
        book_folder: Where reservations are written; shared by all Workers.
    """
    definition = AgentDefinition(
        name="warehouse",
        instructions="Reserve what is asked for, if there is enough of it.",
        model=ScriptedModelClient(reply_as_warehouse_model),
        tools=_build_tools(ReservationBook(book_folder)),
    )
    return create_builtin_agent_session_flow(definition, "Warehouse")


def reply_as_warehouse_model(request: ModelRequest) -> ScriptedModelReply:
    """Answer one model call from the order and the tool results."""
    order = _ORDER.search(ScriptedModelClient.user_texts(request)[-1])
    if order is None:
        return ScriptedModelReply(text="Tell me what to reserve: 'Reserve 2 of K-007.'")
    quantity, item = int(order[1]), order[2]
    results = ScriptedModelClient.tool_results(request)
    if not results:
        reads = (
            ScriptedToolCall("check_stock", {"item": item}),
            ScriptedToolCall("check_price", {"item": item}),
        )
        return ScriptedModelReply(tool_calls=reads)
    answers = {result.tool_name: _read_answer(result.output) for result in results}
    problem = next((result.output for result in results if answers[result.tool_name] is None), None)
    if problem is not None:
        return ScriptedModelReply(text=f"{item} was not reserved. {problem}")
    stock, price = answers["check_stock"] or {}, answers["check_price"] or {}
    if stock["stock"] < quantity:
        return ScriptedModelReply(text=f"There are only {stock['stock']} of {item}, so nothing was reserved.")
    reservation = answers.get("reserve_stock")
    if reservation is None:
        return ScriptedModelReply(
            tool_calls=(ScriptedToolCall("reserve_stock", {"item": item, "quantity": quantity}),)
        )
    cost = price["price_eur"] * quantity
    return ScriptedModelReply(
        text=f"{quantity} of {item} for {cost} EUR are set aside as {reservation['reservation_id']}."
    )


def _read_answer(output: str) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(output)
    except ValueError:
        return None
    return value


def _build_tools(book: ReservationBook) -> tuple[FunctionTool, ...]:
    @function_tool(effect=ToolEffect.READ)
    async def check_stock(item: str) -> dict[str, int]:
        """Return how many of an item there are.

        Args:
            item: Such as K-007.
        """
        return {"stock": _find_item(item)[0]}

    @function_tool(effect=ToolEffect.READ)
    async def check_price(item: str) -> dict[str, int]:
        """Return the price of an item.

        Args:
            item: Such as K-007.
        """
        return {"price_eur": _find_item(item)[1]}

    @function_tool(effect=ToolEffect.IDEMPOTENT_WRITE)
    def reserve_stock(item: str, quantity: int, context: ToolCallContext) -> dict[str, str]:
        """Set goods aside; a repeat with the same key is the same reservation.

        Args:
            item: Such as K-007.
            quantity: How many.
            context: From the session.
        """
        reservation = book.reserve(
            idempotency_key=context.idempotency_key,
            session_id=context.flow_id,
            item=item,
            quantity=quantity,
        )
        return {"reservation_id": reservation.reservation_id}

    return check_stock, check_price, reserve_stock


def _find_item(item: str) -> tuple[int, int]:
    if item not in ITEMS:
        raise ToolExecutionError(f"there is no item {item!r}")
    return ITEMS[item]
