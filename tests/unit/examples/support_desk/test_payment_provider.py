from __future__ import annotations

import asyncio
import json
import socket
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from examples.support_desk.cell_values import Money
from examples.support_desk.payment_provider import PaymentProvider
from examples.support_desk.provider_client import (
    PaymentProviderClient,
    ProviderAnswerLostError,
    ProviderRefusedError,
    ProviderUnreachableError,
)
from examples.support_desk.refund_ledger import RefundLedger, read_ledger

_REFUND = {
    "op": "refund",
    "idempotency_key": "k1",
    "order_id": "FF-10001",
    "amount": "5.00",
    "currency": "EUR",
    "reason": "broken",
}
_FIVE_EUROS = Money(Decimal("5.00"), "EUR")


async def _send(client: PaymentProviderClient) -> str:
    refund = await client.send_refund(
        idempotency_key="k1", order_id="FF-10001", amount=_FIVE_EUROS, reason="broken"
    )
    return refund.refund_id


async def test_a_refund_is_accepted_and_found_again(tmp_path: Path) -> None:
    async with PaymentProvider(RefundLedger(tmp_path / "ledger")).listen() as address:
        client = PaymentProviderClient(address)
        assert await _send(client) == "RF-0001"
        assert [refund.amount for refund in await client.find_refunds("FF-10001")] == ["5.00"]
        assert await client.find_refunds("FF-10002") == []
        assert len(await client.find_refunds(None)) == 1


async def test_a_lost_answer_is_paid_and_leaves_the_sender_waiting(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with PaymentProvider(RefundLedger(path), lost_answers=1).listen() as address:
        client = PaymentProviderClient(address)
        waiting = asyncio.create_task(_send(client))
        while not read_ledger(path):
            await client.find_refunds(None)
        assert not waiting.done()
        waiting.cancel()
        assert await _send(client) == "RF-0002", "only the first answer is lost"


async def test_a_connection_that_closes_without_an_answer_leaves_the_outcome_unknown() -> None:
    async def close_after_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(close_after_reading, "127.0.0.1", 0)
    async with server:
        client = PaymentProviderClient(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ProviderAnswerLostError):
            await _send(client)


async def test_a_provider_that_is_not_there_was_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_again:
        port: int = closed_again.getsockname()[1]
    with pytest.raises(ProviderUnreachableError):
        await _send(PaymentProviderClient(f"127.0.0.1:{port}"))


@pytest.mark.parametrize(
    "request_text",
    [
        "not json",
        "[]",
        "{}",
        json.dumps({"op": "find"}),
        json.dumps({"op": "find", "order_id": 7}),
        json.dumps(_REFUND | {"amount": "-5.00"}),
        json.dumps(_REFUND | {"amount": "much"}),
        json.dumps(_REFUND | {"amount": 5}),
        json.dumps(_REFUND | {"idempotency_key": ""}),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_and_pays_nothing(
    tmp_path: Path, request_text: str
) -> None:
    provider = PaymentProvider(RefundLedger(tmp_path / "ledger"))
    answer: dict[str, Any] | None = provider.answer(request_text.encode())
    assert answer is not None
    assert list(answer) == ["error"]
    assert read_ledger(tmp_path / "ledger") == ()


async def test_a_refusal_is_told_apart_from_a_lost_answer(tmp_path: Path) -> None:
    async with PaymentProvider(RefundLedger(tmp_path / "ledger")).listen() as address:
        client = PaymentProviderClient(address)
        with pytest.raises(ProviderRefusedError, match="reason: a text is needed"):
            await client.send_refund(idempotency_key="k", order_id="FF-10001", amount=_FIVE_EUROS, reason="")


@pytest.mark.parametrize("address", ["localhost", ":80", "127.0.0.1:http", ""])
def test_an_address_without_a_host_and_a_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="provider address: host:port is needed"):
        PaymentProviderClient(address)
