"""The payment provider: a process of its own that accepts refunds and pays each one it accepts.

It speaks one JSON object a line over a loopback connection::

    {"op": "refund", "idempotency_key", "order_id", "amount", "currency", "reason"} → {"refund": {…}}
    {"op": "find", "order_id"}                                                       → {"refunds": [{…}, …]}
    anything else                                                                    → {"error": "…"}

Run as `python -m examples.support_desk.payment_provider --ledger FILE`. It prints one JSON line when it
listens and one for each accepted refund. With `--lost-answers N` the answers to the first N accepted refunds
never leave: the refund is paid and the sender waits, as when a network breaks at the worst moment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.child_process import announce, stop_requested
from examples.support_desk.cell_values import parse_amount
from examples.support_desk.refund_ledger import RefundLedger

__all__ = ["PaymentProvider", "main"]

_REFUND_FIELDS = ("idempotency_key", "order_id", "amount", "currency", "reason")


class PaymentProvider:
    """Answers requests from a ledger.

    Args:
        ledger: Where accepted refunds go.
        lost_answers: How many accepted refunds are not answered.
    """

    def __init__(self, ledger: RefundLedger, lost_answers: int = 0) -> None:
        self._ledger = ledger
        self._answers_to_lose = lost_answers

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncGenerator[str, None]:
        """Serve on a free loopback port while the block is entered, and give its `host:port`."""
        connections: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = asyncio.current_task()
            assert connection is not None
            connections.add(connection)
            try:
                await self._serve_connection(reader, writer)
            finally:
                connections.discard(connection)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            ending = tuple(connections)
            for connection in ending:
                connection.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await server.wait_closed()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = self.answer(line)
                if answer is not None:
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        except ConnectionError:
            # The other side is gone, as after SIGKILL; what was accepted stays accepted.
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def answer(self, line: bytes) -> dict[str, Any] | None:
        """Return the answer to one request, or `None` for an answer that gets lost."""
        try:
            request = json.loads(line)
            match request:
                case {"op": "find", "order_id": str() | None as order_id}:
                    found = [e for e in self._ledger.entries if order_id in (None, e.order_id)]
                    return {"refunds": [asdict(entry) for entry in found]}
                case {"op": "refund"}:
                    return self._accept(request)
                case _:
                    return {"error": "unknown request"}
        except ValueError as error:
            return {"error": str(error)}

    def _accept(self, request: dict[str, Any]) -> dict[str, Any] | None:
        fields: dict[str, str] = {}
        for name in _REFUND_FIELDS:
            value = request.get(name)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name}: a text is needed")
            fields[name] = value
        if parse_amount(fields["amount"]) <= 0:
            raise ValueError("amount: must be above zero")
        entry = self._ledger.accept(
            **fields, accepted_at=datetime.now(UTC).isoformat(timespec="milliseconds")
        )
        is_lost = self._answers_to_lose > 0
        self._answers_to_lose -= is_lost
        announce(event="accepted", is_answered=not is_lost, **asdict(entry))
        return None if is_lost else {"refund": asdict(entry)}


async def _run(ledger: Path, lost_answers: int) -> None:
    provider = PaymentProvider(RefundLedger(ledger), lost_answers)
    async with stop_requested() as stopping, provider.listen() as address:
        announce(event="listening", address=address)
        await stopping.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m examples.support_desk.payment_provider")
    parser.add_argument("--ledger", type=Path, required=True, help="file of accepted refunds")
    parser.add_argument(
        "--lost-answers", type=int, default=0, metavar="N", help="leave the first N unanswered"
    )
    options = parser.parse_args(arguments)
    asyncio.run(_run(options.ledger, options.lost_answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
