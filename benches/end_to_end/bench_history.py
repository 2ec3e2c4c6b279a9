"""What a turn costs when its session already holds 10, 100, 1,000 or 10,000 messages.

    python -m benches.end_to_end.bench_history [--rounds N] [--turns N] [--sizes N,N,...]

Two sessions of each size, on one engine and one Worker. In `whole` the model reads everything that is stored,
so its own input grows with the session. In `covered` a summary covers all but the latest messages, so the
model's input is the same at every size, and what is left is the cost of the session itself. Turns of all
sessions are interleaved, in an order that rotates; each ratio is that of two medians of one run.

Bytes are by how much the store grew in a turn, beside the bytes of what the turn added, as a person would
count them. They are measured over turns of one session between two closes of the store, so that nobody else's
and nothing that the engine clears away later is in them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

from benches.measurement import environment_line, print_table
from dex_agents import (
    AgentSessionClient,
    AgentSessionFlow,
    AgentSessionOptions,
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    AgentWorker,
    ContextSummaryRequest,
    SummarizedContext,
    TurnCompleted,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
)
from dex_agents.builtin_loop.input_items import build_model_output_message, build_user_text_message
from dex_agents.builtin_loop.stored_items import StoredModelOutput
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.testing import EngineProcess

TURN_SECONDS: Final = 120.0
MESSAGES_A_FILLING_TURN: Final = 500
FILL: Final = "fill "
QUESTION: Final = "Where is the parcel with my kettle and the four mugs that I ordered on Monday?"
ANSWER: Final = (
    "Your order ord_10422 left our warehouse yesterday and is on its way with DHL. It should reach you in "
    "Lyon within two working days; the invoice of 86.40 EUR is in your account. "
) * 6
CONTENT_BYTES: Final = len(QUESTION.encode()) + len(ANSWER.encode())
RETAINED_MESSAGES: Final = 6
KINDS: Final = ("whole", "covered")

WARM_UP_TURNS: Final = 36
"""The first one behind the filling makes the summary; by the last the chunks of the filling were joined."""

GROWTH_TURNS: Final = 80
"""Enough to have the price of joining small chunks in it, and little of what the journal holds meanwhile."""


class HistoryRunner(BuiltinLoopAgentRunner):
    """The built-in loop, which stores many messages at once when it is told to fill a session.

    What it covers does not depend on an estimate: a summary is due when a session was filled.
    """

    def __init__(self, covers: bool) -> None:
        super().__init__(AgentDefinition(name="parcels", model=ScriptedModelClient(_answer)))
        self._covers = covers

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Fill the session, or answer."""
        asked = turn.messages[-1].text or ""
        if not asked.startswith(FILL):
            return await super().run_model_step(turn)
        pairs = int(asked.removeprefix(FILL)) // 2
        message = build_model_output_message(StoredModelOutput(text=ANSWER))
        filling = [one for _ in range(pairs) for one in (build_user_text_message(QUESTION), message)]
        return TurnCompleted(new_messages=tuple(filling[1:]), usage=AgentUsage())

    async def estimate_input_tokens(self, turn: AgentTurnContext) -> int:
        """Say that a session is too long when it holds more than the latest messages."""
        return 850 if self._covers and len(turn.messages) > 40 else 0

    def choose_compaction_cut(self, turn: AgentTurnContext, retained_tokens: int) -> int | None:
        """Cover all but the latest messages."""
        return turn.messages[-RETAINED_MESSAGES - 1].sequence

    async def summarize_context(self, request: ContextSummaryRequest) -> SummarizedContext:
        """Return a fixed text."""
        return SummarizedContext(text=f"{len(request.messages)} messages", usage=AgentUsage())


def _answer(request: ModelRequest) -> ScriptedModelReply:
    return ScriptedModelReply(text=ANSWER)


def build_flow(kind: str) -> AgentSessionFlow:
    """Return the Flow of one kind of session."""
    policy = CompactionPolicy(context_window_tokens=1_000)
    options = AgentSessionOptions(compaction=policy if kind == "covered" else None)
    return AgentSessionFlow(HistoryRunner(kind == "covered"), f"History-{kind}", options)


async def fill(client: AgentSessionClient, session_id: str, messages: int) -> None:
    """Put so many messages into a new session; each turn leaves two, or as many as it is told to."""
    await client.start_session(session_id)
    left = messages
    while left > 1:
        now = min(left, MESSAGES_A_FILLING_TURN) // 2 * 2
        await run_turn(client, session_id, f"{FILL}{now}")
        left -= now
    snapshot = await client.get_agent_snapshot(session_id)
    if len(snapshot.messages) != messages:
        raise RuntimeError(f"{session_id} holds {len(snapshot.messages)} messages, not {messages}")


async def run_turn(client: AgentSessionClient, session_id: str, text: str) -> None:
    """Send a message and wait for the end of its turn."""
    await client.send_user_message(session_id, text)
    progress = await client.wait_for_idle(session_id, timeout=TURN_SECONDS)
    if progress.last_turn_outcome != "completed":
        raise RuntimeError(f"the turn ended as {progress.last_turn_outcome}: {progress.last_turn_error}")


def read_used_bytes(database: Path) -> int:
    """Return the bytes of pages in use, of a closed database: free pages are not growth."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


@asynccontextmanager
async def serve(database: Path) -> AsyncGenerator[dict[str, AgentSessionClient], None]:
    """Run an engine process and a Worker for both Flows, and yield a client of each."""
    flows = {kind: build_flow(kind) for kind in KINDS}
    async with (
        EngineProcess(database) as engine,
        AgentWorker(*flows.values(), server_address=engine.server_address),
        AgentSessionClient.connect(flows["whole"], server_address=engine.server_address) as whole,
        AgentSessionClient.connect(flows["covered"], server_address=engine.server_address) as covered,
    ):
        yield {"whole": whole, "covered": covered}


async def measure(sizes: Sequence[int], rounds: int, turns: int) -> None:
    """Fill, measure and print."""
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    growth: dict[tuple[str, int], float] = {}
    cases = [(kind, size) for size in sizes for kind in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "engine.db"
        async with serve(database) as clients:
            for kind, size in cases:
                await fill(clients[kind], f"{kind}-{size}", size)
                for _ in range(WARM_UP_TURNS):
                    await run_turn(clients[kind], f"{kind}-{size}", QUESTION)
            gc.collect()
            for number in range(rounds):
                first = number % len(cases)
                for kind, size in cases[first:] + cases[:first]:
                    for _ in range(turns):
                        begun = time.perf_counter()
                        await run_turn(clients[kind], f"{kind}-{size}", QUESTION)
                        seconds[kind, size].append(time.perf_counter() - begun)
        for kind, size in cases:
            # Twice, so that the journal holds about as much of this session before as after.
            before = 0
            for _ in range(2):
                before = read_used_bytes(database)
                async with serve(database) as clients:
                    for _ in range(GROWTH_TURNS):
                        await run_turn(clients[kind], f"{kind}-{size}", QUESTION)
            growth[kind, size] = (read_used_bytes(database) - before) / GROWTH_TURNS
    _print(sizes, seconds, growth, rounds * turns)


def _print(
    sizes: Sequence[int],
    seconds: dict[tuple[str, int], list[float]],
    growth: dict[tuple[str, int], float],
    count: int,
) -> None:
    print(environment_line())
    print(f"{count} turns of each session, interleaved; a turn adds {CONTENT_BYTES} bytes of content\n")
    rows: list[list[str]] = []
    for kind in ("whole", "covered"):
        floor = statistics.median(seconds[kind, sizes[0]])
        for size in sizes:
            median = statistics.median(seconds[kind, size])
            rows.append(
                [
                    kind,
                    f"{size:,}",
                    f"{median * 1e3:.1f}",
                    f"{max(seconds[kind, size]) * 1e3:.1f}",
                    f"{median / floor:.2f}x",
                    f"{growth[kind, size]:,.0f}",
                    f"{growth[kind, size] / CONTENT_BYTES:.1f}x",
                ]
            )
    head = ["model reads", "stored", "ms a turn", "slowest", f"vs {sizes[0]}", "bytes a turn", "vs content"]
    print_table(head, rows)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="cost of a turn over stored messages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=6, help="turns of each session in a round")
    parser.add_argument("--sizes", default="10,100,1000,10000")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    asyncio.run(measure(sizes, arguments.rounds, arguments.turns))


if __name__ == "__main__":
    main()
