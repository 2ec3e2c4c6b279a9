"""The desk as tools of an agent: reads over the files, one read and one write at the payment provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import msgspec

from dex_agents import ToolEffect, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.builtin_loop import FunctionTool, ToolCallContext, function_tool
from examples.support_desk.cell_values import parse_money
from examples.support_desk.desk import MAX_HITS, Answer, SupportDesk
from examples.support_desk.file_reader import normalize_order_id
from examples.support_desk.provider_client import (
    PaymentProviderClient,
    ProviderAnswerLostError,
    ProviderRefusedError,
    ProviderUnreachableError,
)

__all__ = ["build_desk_tools"]

_Found = TypeVar("_Found")
_Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS)]


def build_desk_tools(
    desk: SupportDesk, provider: PaymentProviderClient, *, seconds_per_read: float = 0.0
) -> tuple[FunctionTool, ...]:
    """Return every tool of the desk.

    Args:
        desk: Answers from the files.
        provider: Where refunds are sent and looked up.
        seconds_per_read: How much longer each read takes, so that a person can watch reads run in parallel.

    Durability:
        The reads may run again. `refund_order` runs once: the provider pays whatever it is sent, so a lost
        attempt is recorded as unknown, and `find_refund` is how to learn what happened.
    """

    async def ask(question: Callable[..., _Found], *arguments: Any) -> _Found:
        await asyncio.sleep(seconds_per_read)
        try:
            return question(*arguments)
        except ValueError as error:
            # The argument cannot be taken, now or later, so another attempt would not help.
            raise ToolExecutionError(str(error)) from error

    @function_tool(effect=ToolEffect.READ)
    async def lookup_order(order_id: str) -> Answer:
        """Return one order: items, total, status, days, and whether the policy allows a refund.

        Args:
            order_id: Such as FF-10432.
        """
        return await ask(desk.lookup_order, order_id)

    @function_tool(effect=ToolEffect.READ)
    async def lookup_customer(customer: str) -> Answer:
        """Return one customer, or the candidates when several fit.

        Args:
            customer: A customer ID such as C-203, an e-mail address, or a name.
        """
        return await ask(desk.lookup_customer, customer)

    @function_tool(effect=ToolEffect.READ)
    async def list_orders_of_customer(customer_id: str) -> Answer:
        """Return all orders of one customer, newest first.

        Args:
            customer_id: Such as C-203.
        """
        return await ask(desk.list_orders_of_customer, customer_id)

    @function_tool(effect=ToolEffect.READ)
    async def search_orders(query: str, limit: _Limit = 4) -> Answer:
        """Find orders by product, note, status or customer.

        Args:
            query: Words to find.
            limit: How many at most.
        """
        return await ask(desk.search_orders, query, limit)

    @function_tool(effect=ToolEffect.READ)
    async def search_tickets(query: str, limit: _Limit = 4) -> Answer:
        """Find what customers wrote, by its words or by an order, customer or ticket ID.

        Args:
            query: Words to find.
            limit: How many at most.
        """
        return await ask(desk.search_tickets, query, limit)

    @function_tool(effect=ToolEffect.READ)
    async def search_policies(query: str, limit: _Limit = 3) -> Answer:
        """Find sections of the shop's policies.

        Args:
            query: Words to find.
            limit: How many at most.
        """
        return await ask(desk.search_policies, query, limit)

    @function_tool(effect=ToolEffect.READ)
    async def count_orders() -> Answer:
        """Count the orders by status and sum the delivered ones by currency."""
        return await ask(desk.count_orders)

    @function_tool(effect=ToolEffect.READ)
    async def find_refund(order_id: str | None = None) -> dict[str, Any]:
        """Ask the payment provider which refunds it accepted.

        Args:
            order_id: Such as FF-10432; left out for all orders.
        """
        wanted = None if order_id is None else await ask(normalize_order_id, order_id)
        refunds = await provider.find_refunds(wanted)
        return {"order_id": wanted, "refunds": [asdict(refund) for refund in refunds]}

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def refund_order(
        order_id: str, amount: str, currency: str, reason: str, context: ToolCallContext
    ) -> dict[str, Any]:
        """Pay money back to the customer of an order. It cannot be undone.

        Args:
            order_id: Such as FF-10432.
            amount: In the currency's main unit, such as 219.00; at most what was paid.
            currency: The currency of the order, such as EUR.
            reason: One sentence for the ledger.
            context: From the session.
        """
        try:
            order_id = normalize_order_id(order_id)
            money = desk.require_refundable(order_id, parse_money(amount, currency))
        except ValueError as error:
            raise ToolExecutionError(f"nothing was refunded: {error}") from error
        context.events.write_tool_progress(context.tool_call_id, f"sending {money} to the payment provider")
        try:
            refund = await provider.send_refund(
                idempotency_key=context.idempotency_key, order_id=order_id, amount=money, reason=reason
            )
        except (ProviderUnreachableError, ProviderRefusedError) as error:
            raise ToolExecutionError(f"nothing was refunded: {error}") from error
        except ProviderAnswerLostError as error:
            raise ToolOutcomeUnknownError(str(error)) from error
        return asdict(refund)

    return (
        lookup_order,
        lookup_customer,
        list_orders_of_customer,
        search_orders,
        search_tickets,
        search_policies,
        count_orders,
        find_refund,
        refund_order,
    )
