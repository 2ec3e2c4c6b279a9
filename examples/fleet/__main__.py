"""Runs the fleet and checks every session afterwards."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dex_agents import AgentSessionClient, AgentSnapshot, DexAgentsError
from examples.child_process import ChildProcess
from examples.fleet.agent import create_warehouse_flow, write_order
from examples.fleet.reservations import Reservation, ReservationBook
from examples.program import run_program
from examples.terminal import Terminal

__all__ = ["main"]

_SESSIONS_AT_ONCE = 32
_SESSION_SECONDS = 120.0


class Fleet:
    """One run.

    Args:
        folder: For the database and the book of reservations.
        session_count: How many sessions.
        terminal: Where progress is shown.
    """

    def __init__(self, folder: Path, session_count: int, terminal: Terminal) -> None:
        self._folder = folder
        self._count = session_count
        self._terminal = terminal
        self._book = ReservationBook(folder / "reservations")
        self._workers: list[ChildProcess] = []
        self._killed: list[ChildProcess] = []
        self._ended = 0
        self._ended_changed = asyncio.Condition()
        self._third_joined = asyncio.Event()

    async def run(self) -> int:
        """Run all sessions and return the exit status."""
        flow = create_warehouse_flow(self._folder / "reservations")
        database = str(self._folder / "sessions.db")
        async with ChildProcess.running("the engine", "examples.fleet.engine", "--data", database) as engine:
            address: str = engine.ready["address"]
            async with AgentSessionClient.connect(flow, server_address=address) as sessions:
                problems, seconds = await self._run_on(address, sessions)
        return self._conclude(problems, seconds)

    async def _run_on(self, address: str, sessions: AgentSessionClient) -> tuple[dict[str, str], float]:
        try:
            async with asyncio.TaskGroup() as joining:
                for _ in range(2):
                    joining.create_task(self._add_worker(address))
            started = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._change_workers(address))
                free = asyncio.Semaphore(_SESSIONS_AT_ONCE)
                for number in range(self._count):
                    if number >= self._count // 2:
                        # The newcomer is to have work, and the killed one to be missed.
                        await self._third_joined.wait()
                    await free.acquire()
                    tasks.create_task(self._run_session(sessions, number, free))
            seconds = time.monotonic() - started
            return await self._check_sessions(sessions), seconds
        finally:
            await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def _add_worker(self, server_address: str) -> ChildProcess:
        worker = await ChildProcess.start(
            "a Worker",
            "examples.fleet.worker",
            *("--server-address", server_address),
            *("--book", str(self._folder / "reservations")),
        )
        self._workers.append(worker)
        self._terminal.line(f"Worker {len(self._workers)} joined: process {worker.pid}")
        return worker

    async def _change_workers(self, server_address: str) -> None:
        await self._wait_for_ended(self._count // 3)
        await self._add_worker(server_address)
        self._third_joined.set()
        # Past the half, so that the sessions of the second half are under way when it dies.
        await self._wait_for_ended(self._count * 5 // 8)
        victim = self._workers[0]
        await victim.kill()
        self._killed.append(victim)
        self._terminal.line(f"Worker 1 was killed with SIGKILL: process {victim.pid}", "bad")

    async def _wait_for_ended(self, count: int) -> None:
        async with self._ended_changed:
            await self._ended_changed.wait_for(lambda: self._ended >= count)

    async def _run_session(self, sessions: AgentSessionClient, number: int, free: asyncio.Semaphore) -> None:
        session_id = _name_session(number)
        try:
            await sessions.start_session(session_id, first_message=write_order(number))
            await sessions.wait_for_idle(session_id, timeout=_SESSION_SECONDS)
        except DexAgentsError as error:
            self._terminal.line(f"{session_id}: {error}", "bad")
        finally:
            free.release()
        async with self._ended_changed:
            self._ended += 1
            self._ended_changed.notify_all()
        self._show_progress()

    def _show_progress(self) -> None:
        if self._terminal.is_terminal:
            width = 40
            filled = width * self._ended // self._count
            self._terminal.redraw(f"[{'#' * filled}{'.' * (width - filled)}] {self._ended} of {self._count}")
        elif self._ended % max(1, self._count // 10) == 0:
            self._terminal.line(f"{self._ended} of {self._count} sessions ended")

    async def _check_sessions(self, sessions: AgentSessionClient) -> dict[str, str]:
        """Return what is wrong with each session that is not as it should be."""
        book: dict[str, list[Reservation]] = {}
        for reservation in self._book.entries():
            book.setdefault(reservation.session_id, []).append(reservation)
        problems: dict[str, str] = {}
        for number in range(self._count):
            session_id = _name_session(number)
            try:
                snapshot = await sessions.get_agent_snapshot(session_id)
            except DexAgentsError as error:
                problems[session_id] = str(error)
                continue
            problem = _find_problem(snapshot, book.get(session_id, []))
            if problem is not None:
                problems[session_id] = problem
        return problems

    def _conclude(self, problems: dict[str, str], seconds: float) -> int:
        for session_id, problem in problems.items():
            self._terminal.line(f"{session_id}: {problem}", "bad")
        entries = self._book.entries()
        served = Counter(entry.worker for entry in entries)
        shares = ", ".join(
            f"Worker {place}: {served[worker.pid]}" for place, worker in enumerate(self._workers, start=1)
        )
        self._terminal.line(
            f"reservations: {len(entries)} ({shares}); repeats recognised by their key: "
            f"{self._book.count_repeats()}"
        )
        finished = self._count - len(problems)
        self._terminal.line(
            f"fleet: sessions {self._count}, finished {finished}, workers {len(self._workers)}, "
            f"killed {len(self._killed)}, turns/s {self._count / seconds:.1f}"
        )
        return 0 if finished == self._count else 1


def _name_session(number: int) -> str:
    return f"order-{number + 1:05d}"


def _find_problem(snapshot: AgentSnapshot, reservations: list[Reservation]) -> str | None:
    """Return what is wrong with a session that should have finished its one turn, or `None`."""
    if snapshot.status != "idle" or snapshot.last_turn_outcome != "completed":
        return f"it is {snapshot.status}, its turn {snapshot.last_turn_outcome}: {snapshot.last_turn_error}"
    if len(reservations) != 1:
        return f"{len(reservations)} reservations instead of one"
    statuses = {call.tool_name: call.status for call in snapshot.tool_calls}
    if statuses != dict.fromkeys(("check_stock", "check_price", "reserve_stock"), "succeeded"):
        return f"its calls ended otherwise than expected: {statuses}"
    answer = snapshot.messages[-1].text or ""
    if reservations[0].reservation_id not in answer:
        return f"its answer does not name {reservations[0].reservation_id}: {answer!r}"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run the fleet and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.fleet", description=__doc__)
    parser.add_argument(
        "--sessions", type=int, default=200, metavar="N", help="how many, at least 6 (default 200)"
    )
    options = parser.parse_args(arguments)
    if options.sessions < 6:
        parser.error("--sessions: at least 6 are needed for three Workers and one loss")
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        return run_program(Fleet(Path(folder), options.sessions, Terminal()).run())


if __name__ == "__main__":
    sys.exit(main())
