"""The scripted model against the real tools: no session, no Worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from dex_agents import OUTCOME_UNKNOWN_TOOL_RESULT, ToolEffect, ToolExecutionError
from dex_agents.builtin_loop import (
    FunctionTool,
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelTool,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedToolCall,
    ToolCallContext,
)
from examples.support_desk.desk import SupportDesk
from examples.support_desk.desk_model import reply_as_desk_model
from examples.support_desk.desk_tools import build_desk_tools
from examples.support_desk.file_reader import read_files
from examples.support_desk.payment_provider import PaymentProvider
from examples.support_desk.provider_client import PaymentProviderClient
from examples.support_desk.refund_ledger import RefundLedger

_OFFERED = (ModelTool("any", "Any.", {"type": "object"}),)


class _SilentEvents:
    def write_text_delta(self, text: str) -> None: ...

    def write_reasoning_delta(self, text: str) -> None: ...

    def write_tool_progress(self, tool_call_id: str, text: str) -> None: ...


async def _no_heartbeat(value: str) -> None: ...


class _Desk:
    """Plays turns: the model's calls run at once, or are answered by `instead`."""

    def __init__(self, tools: tuple[FunctionTool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.items: list[ModelInputItem] = []
        self.called: list[list[str]] = []
        self.instead: Callable[[ScriptedToolCall], str | None] = lambda _: None

    async def ask(self, text: str) -> str:
        self.items.append(ModelUserTextItem(text))
        self.called = []
        while True:
            reply = reply_as_desk_model(ModelRequest("", tuple(self.items), _OFFERED))
            calls = tuple(
                ModelToolCall(f"c{number}", call.tool_name, json.dumps(call.arguments))
                for number, call in enumerate(reply.tool_calls)
            )
            self.items.append(ModelOutputItem(reply.text, calls))
            if not calls:
                return reply.text
            self.called.append([call.tool_name for call in calls])
            for asked, call in zip(reply.tool_calls, calls, strict=True):
                output = self.instead(asked) or await self._run(call)
                self.items.append(ModelToolResultItem(call.model_call_id, call.tool_name, output))

    async def _run(self, call: ModelToolCall) -> str:
        tool = self._tools[call.tool_name]
        context = ToolCallContext(
            flow_id="s",
            turn_id="turn-1",
            tool_call_id=call.model_call_id,
            idempotency_key=f"s/turn-1/{len(self.items)}",
            attempt=1,
            effect=tool.effect or ToolEffect.UNCLASSIFIED,
            events=_SilentEvents(),
            heartbeat=_no_heartbeat,
            cancelled=asyncio.Event(),
        )
        try:
            return json.dumps(await tool.execute(tool.prepare_arguments(call.arguments), context))
        except ToolExecutionError as error:
            return f"The tool call failed: {error}"


@pytest.fixture
async def ledger(tmp_path: Path) -> RefundLedger:
    return RefundLedger(tmp_path / "ledger.jsonl")


@pytest.fixture
async def desk(ledger: RefundLedger) -> AsyncGenerator[_Desk, None]:
    async with PaymentProvider(ledger).listen() as address:
        yield _Desk(build_desk_tools(SupportDesk(read_files()), PaymentProviderClient(address)))


async def test_a_question_about_an_order_is_answered_with_quotes_and_sources(desk: _Desk) -> None:
    answer = await desk.ask("The tent pole of FF-10432 snapped. What do others report, and the policy?")
    assert desk.called == [
        ["lookup_order", "search_tickets", "search_policies"],
        ["lookup_customer", "search_tickets"],
    ]
    for part in (
        "219.00 EUR",
        "Jonas Weber",
        "[tickets.csv:67]",
        "[tickets_archive.csv:21]",
        "policies/warranty.md",
    ):
        assert part in answer


async def test_a_refund_is_checked_first_and_then_sent_once(desk: _Desk, ledger: RefundLedger) -> None:
    answer = await desk.ask("Please refund FF-10432.")
    assert desk.called == [
        ["lookup_order", "find_refund", "search_tickets", "search_policies"],
        ["refund_order"],
    ]
    assert [(entry.order_id, entry.amount, entry.reason) for entry in ledger.entries] == [
        ("FF-10432", "219.00", "ticket T-3096: Tent pole snapped, please help")
    ]
    assert "Done: 219.00 EUR for FF-10432 are on their way (RF-0001)." in answer


async def test_an_order_that_was_refunded_is_not_refunded_again(desk: _Desk, ledger: RefundLedger) -> None:
    await desk.ask("Please refund FF-10432.")
    answer = await desk.ask("Refund FF-10432 once more.")
    assert ["refund_order"] not in desk.called
    assert "FF-10432 was refunded before, so I did not send another: RF-0001" in answer
    assert len(ledger.entries) == 1


async def test_after_an_unknown_outcome_the_provider_is_asked_and_nothing_is_sent_again(
    desk: _Desk, ledger: RefundLedger
) -> None:
    def pay_and_lose_the_answer(call: ScriptedToolCall) -> str | None:
        if call.tool_name != "refund_order":
            return None
        ledger.accept(
            idempotency_key="k",
            order_id="FF-10432",
            amount="219.00",
            currency="EUR",
            reason="r",
            accepted_at="now",
        )
        return OUTCOME_UNKNOWN_TOOL_RESULT

    desk.instead = pay_and_lose_the_answer
    answer = await desk.ask("Please refund FF-10432.")
    assert desk.called[1:] == [["refund_order"], ["find_refund"]]
    assert "I did not send it again" in answer
    assert "It accepted 1 refund: RF-0001 of 219.00 EUR for FF-10432" in answer
    assert len(ledger.entries) == 1


async def test_an_unknown_outcome_that_the_provider_does_not_know_is_said_as_it_is(
    desk: _Desk, ledger: RefundLedger
) -> None:
    desk.instead = lambda call: OUTCOME_UNKNOWN_TOOL_RESULT if call.tool_name == "refund_order" else None
    answer = await desk.ask("Please refund FF-10432.")
    assert "The payment provider has no refund for FF-10432 so far" in answer
    assert ledger.entries == ()


async def test_without_an_answer_of_the_provider_nothing_is_sent(desk: _Desk, ledger: RefundLedger) -> None:
    desk.instead = lambda call: "The tool call failed: no answer" if call.tool_name == "find_refund" else None
    answer = await desk.ask("Please refund FF-10432.")
    assert "could not be asked about FF-10432, so I did not send a refund" in answer
    assert ledger.entries == ()


async def test_a_rejected_refund_is_answered_with_the_reason(desk: _Desk, ledger: RefundLedger) -> None:
    rejection = "The tool call was rejected by a person and was not run. Their reason: talk to her first"
    desk.instead = lambda call: rejection if call.tool_name == "refund_order" else None
    answer = await desk.ask("Please refund FF-10432.")
    assert "FF-10432 was not refunded." in answer
    assert "talk to her first" in answer
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("order_id", "reason"),
    [
        ("FF-10371", "ended on 2026-10-07"),
        ("FF-10446", "over the desk's limit of 215.00 GBP"),
        ("FF-10458", "the order is shipped"),
        ("FF-10370", "the files disagree"),
        ("FF-99999", "There is no order FF-99999"),
    ],
)
async def test_a_refund_outside_the_policy_is_refused_with_the_reason(
    desk: _Desk, ledger: RefundLedger, order_id: str, reason: str
) -> None:
    assert reason in await desk.ask(f"Please refund {order_id}")
    assert ledger.entries == ()


async def test_two_orders_are_decided_one_by_one(desk: _Desk, ledger: RefundLedger) -> None:
    answer = await desk.ask("Please refund FF-10446 and FF-10419.")
    assert [entry.order_id for entry in ledger.entries] == ["FF-10419"]
    assert "FF-10446: 583.08 GBP is over" in answer
    assert "for FF-10419 are on their way" in answer


async def test_a_refund_without_an_order_is_asked_about(desk: _Desk) -> None:
    assert "Which order is it?" in await desk.ask("please give me a refund")


async def test_it_is_the_order_of_an_earlier_turn(desk: _Desk, ledger: RefundLedger) -> None:
    await desk.ask("What about FF-10432?")
    await desk.ask("Please refund it.")
    assert [entry.order_id for entry in ledger.entries] == ["FF-10432"]


async def test_the_ledger_answers_what_was_sent(desk: _Desk) -> None:
    assert await desk.ask("Which refunds have been sent?") == "The payment provider has no refund at all."
    await desk.ask("Please refund FF-10432.")
    assert "accepted 1 refund: RF-0001" in await desk.ask("Was FF-10432 refunded?")


async def test_a_rule_is_quoted_from_the_policy(desk: _Desk) -> None:
    answer = await desk.ask("Do you ship to Iceland?")
    assert desk.called == [["search_tickets", "search_policies", "search_orders"]]
    assert (
        '"We do not ship to Iceland yet: customs sends too many parcels back." [policies/shipping.md:'
        in answer
    )


async def test_a_person_is_answered_with_their_orders(desk: _Desk) -> None:
    answer = await desk.ask("What has Astrid Lindholm ordered?")
    assert desk.called[1] == ["list_orders_of_customer"]
    assert "FF-10440: 1 x Skarn hiking boots" in answer


async def test_a_ticket_is_answered_with_its_order(desk: _Desk) -> None:
    answer = await desk.ask("What does T-3096 say?")
    assert "Jonas Weber" in answer
    assert "orders.csv:137" in answer


async def test_when_nothing_is_found_it_looks_wider_and_then_says_so(desk: _Desk) -> None:
    answer = await desk.ask("who won the 1998 world cup?")
    assert desk.called[1] == ["search_tickets", "search_policies"]
    assert answer.startswith("I found nothing about that in the desk's files (searched: 103 tickets, ")


async def test_numbers_come_from_the_count(desk: _Desk) -> None:
    assert (await desk.ask("How many orders are delivered?")).startswith("165 orders: 142 delivered")


async def test_a_look_up_that_failed_is_not_passed_over(desk: _Desk) -> None:
    desk.instead = lambda call: (
        "The tool call failed: disk error" if call.tool_name == "search_tickets" else None
    )
    assert (
        "Not everything could be looked up. search_tickets: The tool call failed: disk error"
        in await desk.ask("Do you ship to Iceland?")
    )


async def test_without_tools_it_answers_at_once(desk: _Desk) -> None:
    request = ModelRequest("", (ModelUserTextItem("Do you ship to Iceland?"),), ())
    assert reply_as_desk_model(request).tool_calls == ()


async def test_the_same_request_always_gives_the_same_reply(desk: _Desk) -> None:
    await desk.ask("Please refund FF-10432 and FF-10419.")
    for end in range(1, len(desk.items)):
        if isinstance(desk.items[end], ModelOutputItem):
            request = ModelRequest("", tuple(desk.items[:end]), _OFFERED)
            assert reply_as_desk_model(request) == reply_as_desk_model(request)
