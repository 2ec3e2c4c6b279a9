"""Speaks to the payment provider, and tells three failures apart: never sent, refused, and unknown."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from examples.support_desk.cell_values import Money
from examples.support_desk.refund_ledger import AcceptedRefund

__all__ = [
    "PaymentProviderClient",
    "ProviderAnswerLostError",
    "ProviderRefusedError",
    "ProviderUnreachableError",
]


class ProviderUnreachableError(RuntimeError):
    """No connection could be made, so nothing was sent."""


class ProviderRefusedError(RuntimeError):
    """The provider answered that it does not accept the request, so nothing was paid."""


class ProviderAnswerLostError(RuntimeError):
    """The request may have left and no answer came back: nobody on this side knows what happened."""


class PaymentProviderClient:
    """Makes one connection for each request.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"provider address: host:port is needed, found {address!r}")
        self._host, self._port = host, int(port)

    async def send_refund(
        self, *, idempotency_key: str, order_id: str, amount: Money, reason: str
    ) -> AcceptedRefund:
        """Ask the provider to pay a refund.

        Raises:
            ProviderUnreachableError: Nothing was sent.
            ProviderRefusedError: Nothing was paid.
            ProviderAnswerLostError: It may have been paid.
        """
        answer = await self._ask(
            op="refund",
            idempotency_key=idempotency_key,
            order_id=order_id,
            amount=f"{amount.amount:f}",
            currency=amount.currency,
            reason=reason,
        )
        return AcceptedRefund(**answer["refund"])

    async def find_refunds(self, order_id: str | None) -> list[AcceptedRefund]:
        """Return what was accepted for an order, or all that was ever accepted.

        Raises:
            ProviderUnreachableError: No connection could be made.
            ProviderAnswerLostError: The connection broke.
        """
        answer = await self._ask(op="find", order_id=order_id)
        return [AcceptedRefund(**refund) for refund in answer["refunds"]]

    async def _ask(self, **request: str | None) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError as error:
            raise ProviderUnreachableError(f"the payment provider cannot be reached: {error}") from error
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        except OSError as error:
            raise ProviderAnswerLostError(f"the connection to the payment provider broke: {error}") from error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if not line.endswith(b"\n"):
            raise ProviderAnswerLostError("the payment provider closed the connection without an answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProviderRefusedError(f"the payment provider refused: {answer['error']}")
        return answer
