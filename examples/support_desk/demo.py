"""The whole story in under a minute: `python -m examples.support_desk.demo`.

A support agent answers from real-looking files, asks before it refunds, loses its Worker process to SIGKILL
while the payment provider has already paid, and says truthfully what is known. Then everything is stopped and
started again from the database file. Exit status 0 means that all of it happened.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from dex_agents import (
    AgentInterrupt,
    AgentSessionClient,
    AgentSnapshot,
    AgentToolCall,
    ApprovalDecision,
    DexAgentsError,
)
from dex_agents.engine import LocalEngine
from examples.child_process import ChildProcess
from examples.program import run_program
from examples.support_desk.agent import create_support_desk_flow
from examples.support_desk.file_reader import DATA_FOLDER, read_files
from examples.support_desk.refund_ledger import AcceptedRefund, count_repeated_refunds, read_ledger
from examples.support_desk.session_view import SessionView, describe_arguments, print_transcript
from examples.terminal import Terminal

__all__ = ["main"]

_SESSION = "support-desk"
_FIRST_ORDER, _SECOND_ORDER = "FF-10432", "FF-10440"
_TURN_SECONDS = 60.0
_PRINT_SECONDS = 5.0


class Demo:
    """One run of the story.

    Attributes:
        surprises: What should have happened and did not; each makes the exit status non-zero.
    """

    def __init__(self, folder: Path, pace: float, terminal: Terminal) -> None:
        self._folder = folder
        self._pace = pace
        self._terminal = terminal
        self._ledger = folder / "refund_ledger.jsonl"
        self._worker_kills = 0
        self._turns_begun = 0
        self._provider: ChildProcess
        self._worker: ChildProcess
        self._sessions: AgentSessionClient
        self._view: SessionView
        self.surprises: list[str] = []

    async def run(self) -> int:
        """Tell the story and return the exit status."""
        lost_answers = ("--lost-answers", "1")
        async with ChildProcess.running(
            "the payment provider",
            "examples.support_desk.payment_provider",
            *("--ledger", str(self._ledger), *lost_answers),
        ) as self._provider:
            self._terminal.line(
                f"payment provider: process {self._provider.pid}, ledger {self._ledger}", "quiet"
            )
            async with self._everything_running(is_new=True):
                await self._ask_about_an_order()
                await self._lose_the_worker_during_a_refund()
                await self._refund_another_order()
                before = await self._sessions.get_agent_snapshot(_SESSION)
            self._heading("Everything is stopped: Worker, client and engine. What is left is a file.")
            async with self._everything_running(is_new=False):
                snapshot = await self._sessions.get_agent_snapshot(_SESSION)
                self._heading(f"The transcript, from the snapshot ({self._database}):")
                print_transcript(snapshot, self._terminal)
                self._expect(snapshot.messages == before.messages, "the restart changed the transcript")
                self._expect(snapshot.tool_calls == before.tool_calls, "the restart changed a record")
                self._heading("And the session goes on:")
                await self._take_turn(f"Did the refund for {_FIRST_ORDER} go through?")
                await self._take_questions()
                snapshot = await self._sessions.get_agent_snapshot(_SESSION)
        return self._conclude(snapshot)

    @property
    def _database(self) -> Path:
        return self._folder / "sessions.db"

    @contextlib.asynccontextmanager
    async def _everything_running(self, *, is_new: bool) -> AsyncIterator[None]:
        flow = create_support_desk_flow(self._provider.ready["address"])
        async with (
            LocalEngine(self._database) as engine,
            AgentSessionClient.connect(flow, server_address=engine.server_address) as self._sessions,
        ):
            await self._start_worker(engine.server_address)
            try:
                if is_new:
                    await self._sessions.start_session(_SESSION)
                    shown = None
                else:
                    shown = await self._sessions.get_agent_snapshot(_SESSION)
                self._turns_begun = 0
                events = self._sessions.events(_SESSION, since=shown)
                async with SessionView(events, self._terminal) as self._view:
                    yield
            finally:
                await self._worker.stop()

    async def _start_worker(self, server_address: str | None = None) -> None:
        if server_address is not None:
            self._server_address = server_address
        self._worker = await ChildProcess.start(
            "the Worker",
            "examples.support_desk.worker",
            *("--server-address", self._server_address),
            *("--provider-address", self._provider.ready["address"]),
            *("--pace", str(self._pace)),
        )
        self._terminal.line(f"Worker: process {self._worker.pid}", "quiet")

    async def _ask_about_an_order(self) -> None:
        self._heading("A question, answered from the files with parallel reads")
        answer = await self._take_turn(
            f"The tent pole of {_FIRST_ORDER} snapped. What do others report, and what does the policy say?"
        )
        self._expect("policies/warranty.md" in answer, "the answer does not quote the policy")

    async def _lose_the_worker_during_a_refund(self) -> None:
        self._heading("A refund, and the Worker is killed while it runs")
        await self._begin_turn(f"Please refund {_FIRST_ORDER}.")
        approved = await self._decide_interrupts()
        if not approved:
            await self._finish_turn()
            return
        announced = await asyncio.wait_for(self._provider.next_announcement(), _TURN_SECONDS)
        self._expect(announced is not None, "the payment provider ended")
        await self._view.wait_for_tool_start("refund_order", _PRINT_SECONDS)
        self._terminal.line(
            "The provider has paid, and its answer is still under way. Now SIGKILL for the Worker.", "heading"
        )
        await self._worker.kill()
        self._worker_kills += 1
        self._terminal.line(f"Worker: process {self._worker.pid} is gone. Another one starts.", "bad")
        await self._start_worker()
        answer = await self._finish_turn()
        sent = self._sent_for(_FIRST_ORDER)
        record = await self._refund_status(_FIRST_ORDER)
        self._terminal.line(
            f"Refunds of {_FIRST_ORDER} in the ledger: {len(sent)}. The record: {record}.", "heading"
        )
        self._expect(len(sent) == 1, f"{_FIRST_ORDER} was refunded {len(sent)} times")
        self._expect(record == "outcome_unknown", f"the record of the interrupted refund says {record}")
        self._expect(
            all(refund.refund_id in answer for refund in sent), "the answer hides what the ledger has"
        )

    async def _refund_another_order(self) -> None:
        self._heading("Another refund, which goes through")
        await self._begin_turn(f"Refund {_SECOND_ORDER} too, please: the sole came off after three days.")
        approved = await self._decide_interrupts()
        await self._finish_turn()
        if approved:
            record = await self._refund_status(_SECOND_ORDER)
            self._expect(record == "succeeded", f"the record of the second refund says {record}")
            self._expect(len(self._sent_for(_SECOND_ORDER)) == 1, f"{_SECOND_ORDER} was not refunded once")

    async def _take_questions(self) -> None:
        if not self._terminal.is_interactive:
            self._terminal.line("(not a terminal, so no questions are taken)", "quiet")
            return
        self._heading("Your turn: ask about orders, customers, tickets, policies. An empty line ends.")
        while question := (await self._terminal.ask("you> ") or "").strip():
            try:
                await self._take_turn(question, is_typed=True)
            except (DexAgentsError, TimeoutError) as error:
                self._terminal.line(str(error), "bad")

    async def _take_turn(self, text: str, *, is_typed: bool = False) -> str:
        await self._begin_turn(text, is_typed=is_typed)
        await self._decide_interrupts()
        return await self._finish_turn()

    async def _begin_turn(self, text: str, *, is_typed: bool = False) -> None:
        if not is_typed:
            self._terminal.line(f"you> {text}", "user")
        await self._sessions.send_user_message(_SESSION, text)
        self._turns_begun += 1

    async def _finish_turn(self) -> str:
        """Wait for the end of the turn, answering whatever it still asks, and return the answer."""
        await self._decide_interrupts(until_idle=True)
        if not await self._view.wait_for_turn_end(self._turns_begun, _PRINT_SECONDS):
            self._terminal.line("(the live view is behind; the transcript has it all)", "quiet")
        snapshot = await self._sessions.get_agent_snapshot(_SESSION)
        self._expect(snapshot.last_turn_outcome == "completed", f"a turn ended {snapshot.last_turn_outcome}")
        return next((m.text or "" for m in reversed(snapshot.messages) if m.role == "assistant"), "")

    async def _decide_interrupts(self, *, until_idle: bool = False) -> bool:
        """Answer the first question to a person, or every one until the turn ends; `True` for an approval."""
        approved = False
        while True:
            progress = await self._sessions.wait_for_attention(_SESSION, timeout=_TURN_SECONDS)
            for interrupt in progress.interrupts:
                approved |= await self._decide(interrupt)
            if not progress.interrupts or not until_idle:
                return approved

    async def _decide(self, interrupt: AgentInterrupt) -> bool:
        arguments = describe_arguments(interrupt.effective_arguments or interrupt.arguments)
        prompt = f"Approve {interrupt.tool_name}({arguments})? [y/N] "
        if self._terminal.is_interactive:
            answer = (await self._terminal.ask(prompt) or "").strip().lower()
        else:
            answer = "y"
            self._terminal.line(
                f"{prompt}y   (answered by the demo itself: stdin is not a terminal)", "heading"
            )
        decision: ApprovalDecision = "approve" if answer in ("y", "yes") else "reject"
        await self._sessions.resolve_interrupt(_SESSION, interrupt.interrupt_id, decision)
        return decision == "approve"

    async def _refund_status(self, order_id: str) -> str:
        snapshot = await self._sessions.get_agent_snapshot(_SESSION)
        calls = [call for call in _refund_calls(snapshot) if order_id in call.arguments_to_run]
        return calls[-1].status if calls else "never asked for"

    def _sent_for(self, order_id: str) -> list[AcceptedRefund]:
        return [refund for refund in read_ledger(self._ledger) if refund.order_id == order_id]

    def _conclude(self, snapshot: AgentSnapshot) -> int:
        sent = read_ledger(self._ledger)
        repeated = count_repeated_refunds(sent)
        self._expect(repeated == 0, f"{repeated} refunds were repeated")
        self._check_records_against(sent, snapshot)
        for surprise in self.surprises:
            self._terminal.line(f"not as expected: {surprise}", "bad")
        self._terminal.line(
            f"demo: refunds requested {len(_refund_calls(snapshot))}, sent {len(sent)}, repeated {repeated}, "
            f"worker kills {self._worker_kills}, messages {len(snapshot.messages)}"
        )
        return 1 if self.surprises else 0

    def _check_records_against(self, sent: Sequence[AcceptedRefund], snapshot: AgentSnapshot) -> None:
        keys = {refund.idempotency_key for refund in sent}
        for call in _refund_calls(snapshot):
            was_sent = f"{snapshot.session_id}/{call.turn_id}/{call.tool_call_id}" in keys
            if call.status == "succeeded":
                self._expect(was_sent, f"{call.tool_call_id} is recorded as succeeded and was not sent")
            elif call.status != "outcome_unknown":
                self._expect(not was_sent, f"{call.tool_call_id} is recorded as {call.status} and was sent")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.surprises.append(otherwise)

    def _heading(self, text: str) -> None:
        self._terminal.line()
        self._terminal.line(f"── {text}", "heading")


def _refund_calls(snapshot: AgentSnapshot) -> list[AgentToolCall]:
    return [call for call in snapshot.tool_calls if call.tool_name == "refund_order"]


def _print_files(terminal: Terminal) -> None:
    files = read_files(DATA_FOLDER)
    tables = ", ".join(f"{report.file} {report.kept} of {report.rows} rows" for report in files.reports)
    terminal.line(f"files: {tables}, {len(files.policies)} sections of policies", "quiet")
    terminal.line(
        f"       {len(files.problems)} cells or rows were not read as they stand, such as:", "quiet"
    )
    for problem in files.problems[:: max(1, len(files.problems) // 4)]:
        terminal.line(f"       {problem}", "quiet")


async def _run(folder: Path, pace: float) -> int:
    terminal = Terminal()
    _print_files(terminal)
    return await Demo(folder, pace, terminal).run()


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.support_desk.demo", description=__doc__)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep the database and the ledger in this new folder"
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0.2,
        metavar="SECONDS",
        help="how long each read takes, so that one can watch; 0 for as fast as it goes (default 0.2)",
    )
    options = parser.parse_args(arguments)
    if options.data is None:
        with tempfile.TemporaryDirectory(prefix="support-desk-") as folder:
            return run_program(_run(Path(folder), options.pace))
    try:
        options.data.mkdir(parents=True, exist_ok=True)
        is_new = not any(options.data.iterdir())
    except OSError as error:
        parser.error(f"--data: {error}")
    if not is_new:
        parser.error(f"--data: {options.data} is not empty; the story begins in a new folder")
    return run_program(_run(options.data, options.pace))


if __name__ == "__main__":
    sys.exit(main())
