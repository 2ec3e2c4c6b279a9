"""The support desk: its demo as a program, and further storylines through the client."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dex_agents import AgentInterrupt, AgentSessionClient, AgentSnapshot, AgentWorker
from dex_agents.engine import LocalEngine
from examples.support_desk.agent import create_support_desk_flow
from examples.support_desk.payment_provider import PaymentProvider
from examples.support_desk.refund_ledger import (
    AcceptedRefund,
    RefundLedger,
    count_repeated_refunds,
    read_ledger,
)

_ROOT = Path(__file__).resolve().parents[2]
_DEMO = (sys.executable, "-m", "examples.support_desk.demo", "--pace", "0")
_SECONDS = 110.0
_LAST_LINE = re.compile(
    r"demo: refunds requested (\d+), sent (\d+), repeated (\d+), worker kills (\d+), messages (\d+)"
)


def _read_last_line(output: str) -> tuple[int, ...]:
    found = _LAST_LINE.fullmatch(output.rstrip().splitlines()[-1])
    assert found is not None, output
    return tuple(int(number) for number in found.groups())


def _run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_DEMO, *arguments],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@dataclass(frozen=True)
class _Desk:
    client: AgentSessionClient
    ledger_file: Path

    @property
    def sent(self) -> tuple[AcceptedRefund, ...]:
        return read_ledger(self.ledger_file)

    async def begin(self, text: str) -> None:
        await self.client.send_user_message("s1", text)

    async def wait_for_interrupts(self, count: int) -> tuple[AgentInterrupt, ...]:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            interrupts = (await self.client.get_progress("s1")).interrupts
            if len(interrupts) == count:
                return interrupts
        raise AssertionError(f"{count} questions were not asked")

    async def finish(self) -> AgentSnapshot:
        await self.client.wait_for_idle("s1", timeout=_SECONDS)
        return await self.client.get_agent_snapshot("s1")


@asynccontextmanager
async def _open_desk(folder: Path) -> AsyncGenerator[_Desk, None]:
    ledger_file = folder / "ledger.jsonl"
    async with PaymentProvider(RefundLedger(ledger_file)).listen() as provider_address:
        flow = create_support_desk_flow(provider_address)
        async with (
            LocalEngine(folder / "sessions.db") as engine,
            AgentWorker(flow, server_address=engine.server_address),
            AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
        ):
            yield _Desk(client, ledger_file)


def _answer_of(snapshot: AgentSnapshot) -> str:
    return snapshot.messages[-1].text or ""


def _statuses_of(snapshot: AgentSnapshot, tool_name: str) -> list[str]:
    return [call.status for call in snapshot.tool_calls if call.tool_name == tool_name]


async def test_the_demo_sends_each_refund_once_and_tells_the_truth(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    ran = _run_demo("--data", str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    requested, sent, repeated, kills, messages = _read_last_line(ran.stdout)
    assert (requested, sent, repeated, kills) == (2, 2, 0, 1)
    ledger = read_ledger(folder / "refund_ledger.jsonl")
    assert [refund.order_id for refund in ledger] == ["FF-10432", "FF-10440"]
    assert count_repeated_refunds(ledger) == 0
    assert "\x1b" not in ran.stdout, "no colours where there is no terminal"
    assert "answered by the demo itself: stdin is not a terminal" in ran.stdout
    assert "? refund_order: outcome_unknown" in ran.stdout
    flow = create_support_desk_flow("127.0.0.1:9")
    async with (
        LocalEngine(folder / "sessions.db") as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        snapshot = await client.get_agent_snapshot("support-desk")
    assert len(snapshot.messages) == messages
    assert _statuses_of(snapshot, "refund_order") == ["outcome_unknown", "succeeded"]
    for message in snapshot.messages:
        assert (message.text or "").strip() in _without_indent(ran.stdout)


def _without_indent(output: str) -> str:
    return "\n".join(line.strip() for line in output.splitlines())


def test_the_demo_begins_in_a_new_folder_only(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").touch()
    ran = _run_demo("--data", str(tmp_path))
    assert ran.returncode == 2
    assert "is not empty; the story begins in a new folder" in ran.stderr
    assert "Traceback" not in ran.stderr


class _TypedDemo:
    """The demo on a terminal of its own."""

    def __init__(self) -> None:
        self._terminal, inner = pty.openpty()
        self.process = subprocess.Popen(
            _DEMO, cwd=_ROOT, stdin=inner, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm"}
        )
        os.close(inner)
        self.output = ""
        self._read_to = 0
        self._deadline = time.monotonic() + _SECONDS

    def answer(self, prompt: str, text: str) -> None:
        while (place := self.output.find(prompt, self._read_to)) < 0:
            assert self._read(), self.output
        self._read_to = place + len(prompt)
        os.write(self._terminal, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._terminal)
        return self.process.wait(timeout=_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, self._deadline - time.monotonic()))
        assert ready, f"nothing was said in time: {self.output}"
        try:
            piece = os.read(self._terminal, 65536)
        except OSError:
            return False
        self.output += piece.decode(errors="replace")
        return bool(piece)


def test_on_a_terminal_a_person_decides_and_asks() -> None:
    demo = _TypedDemo()
    demo.answer("[y/N] ", "y\n")
    demo.answer("[y/N] ", "n\n")
    demo.answer("An empty line ends.", "")
    demo.answer("you> ", "Do you ship to Iceland?\n")
    demo.answer("We do not ship to Iceland yet", "")
    demo.answer("you> ", "Refund FF-10419 please\n")
    demo.answer("[y/N] ", "y\n")
    demo.answer("for FF-10419 are on their way", "")
    demo.answer("you> ", "\n")
    assert demo.end() == 0, demo.output
    assert _read_last_line(demo.output.replace("\r", ""))[:4] == (3, 2, 0, 1)
    assert "\x1b[" in demo.output, "colours on a terminal"


def test_a_person_may_reject_everything_and_leave() -> None:
    demo = _TypedDemo()
    demo.answer("[y/N] ", "\n")
    demo.answer("[y/N] ", "no\n")
    demo.answer("An empty line ends.", "")
    demo.answer("you> ", "\x04")
    assert demo.end() == 0, demo.output
    assert _read_last_line(demo.output.replace("\r", ""))[:4] == (2, 0, 0, 0)


async def test_a_rejected_refund_is_never_sent(tmp_path: Path) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1")
        await desk.begin("Please refund FF-10432.")
        (asked,) = await desk.wait_for_interrupts(1)
        assert await desk.client.resolve_interrupt(
            "s1", asked.interrupt_id, "reject", reason="call her first"
        )
        snapshot = await desk.finish()
        assert _statuses_of(snapshot, "refund_order") == ["rejected"]
        assert "call her first" in _answer_of(snapshot)
        assert desk.sent == ()


async def test_an_approver_may_lower_the_amount(tmp_path: Path) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1")
        await desk.begin("Please refund FF-10432.")
        (asked,) = await desk.wait_for_interrupts(1)
        lowered = asked.arguments.replace("219.00", "50.00")
        assert await desk.client.resolve_interrupt("s1", asked.interrupt_id, "approve", arguments=lowered)
        snapshot = await desk.finish()
        assert [(refund.order_id, refund.amount) for refund in desk.sent] == [("FF-10432", "50.00")]
        (record,) = [call for call in snapshot.tool_calls if call.tool_name == "refund_order"]
        assert record.approval is not None
        assert record.approval.edited
        assert "Done: 50.00 EUR for FF-10432" in _answer_of(snapshot)


async def test_an_amount_beyond_the_policy_fails_even_when_it_was_approved(tmp_path: Path) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1")
        await desk.begin("Please refund FF-10432.")
        (asked,) = await desk.wait_for_interrupts(1)
        raised = asked.arguments.replace("219.00", "2190.00")
        assert await desk.client.resolve_interrupt("s1", asked.interrupt_id, "approve", arguments=raised)
        snapshot = await desk.finish()
        assert _statuses_of(snapshot, "refund_order") == ["failed"]
        assert "more than the order's 219.00 EUR" in _answer_of(snapshot)
        assert desk.sent == ()


async def test_two_refunds_are_asked_for_at_once_and_answered_in_any_order(tmp_path: Path) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1")
        await desk.begin("Please refund FF-10432 and FF-10440.")
        first, second = await desk.wait_for_interrupts(2)
        waiting = [session async for session in desk.client.waiting_sessions()]
        assert [(session.session_id, len(session.interrupts)) for session in waiting] == [("s1", 2)]
        assert await desk.client.resolve_interrupt("s1", second.interrupt_id, "approve")
        assert await desk.client.resolve_interrupt("s1", first.interrupt_id, "reject")
        snapshot = await desk.finish()
        assert _statuses_of(snapshot, "refund_order") == ["rejected", "succeeded"]
        assert [refund.order_id for refund in desk.sent] == ["FF-10440"]
        (record,) = [
            call for call in snapshot.tool_calls if call.status == "succeeded" and call.effect.is_write
        ]
        assert desk.sent[0].idempotency_key == f"s1/turn-1/{record.tool_call_id}"


async def test_a_session_remembers_after_everything_was_restarted(tmp_path: Path) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1", first_message="What about FF-10440?")
        before = await desk.finish()
    async with _open_desk(tmp_path) as desk:
        assert (await desk.client.get_agent_snapshot("s1")).messages == before.messages
        await desk.begin("Please refund it.")
        (asked,) = await desk.wait_for_interrupts(1)
        assert "FF-10440" in asked.arguments
        await desk.client.resolve_interrupt("s1", asked.interrupt_id, "approve")
        await desk.finish()
        assert [refund.order_id for refund in desk.sent] == ["FF-10440"]


async def test_without_the_payment_provider_the_desk_still_answers(tmp_path: Path) -> None:
    async with PaymentProvider(RefundLedger(tmp_path / "ledger.jsonl")).listen() as address:
        flow = create_support_desk_flow(address)
    async with (
        LocalEngine(tmp_path / "sessions.db") as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        desk = _Desk(client, tmp_path / "ledger.jsonl")
        await client.start_session("s1", first_message="Please refund FF-10432.")
        snapshot = await desk.finish()
        assert _statuses_of(snapshot, "find_refund") == ["failed"]
        assert "could not be asked about FF-10432, so I did not send a refund" in _answer_of(snapshot)
        await desk.begin("Do you ship to Iceland?")
        assert "We do not ship to Iceland yet" in _answer_of(await desk.finish())


@pytest.mark.parametrize(
    "question", ["who won the 1998 world cup?", "???", "\ud83d tent", "What does T-3096 say?", "x" * 5000]
)
async def test_any_question_gets_an_answer(tmp_path: Path, question: str) -> None:
    async with _open_desk(tmp_path) as desk:
        await desk.client.start_session("s1", first_message=question)
        snapshot = await desk.finish()
        assert snapshot.last_turn_outcome == "completed"
        assert _answer_of(snapshot)
