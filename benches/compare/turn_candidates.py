"""Which libraries `bench_turns` runs, how each is set up, and what each then promises."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

__all__ = ["Candidate", "choose_candidates"]


@dataclass(frozen=True)
class Candidate:
    """A library in one setting.

    Attributes:
        name: Its row in the tables.
        module: What its process runs.
        arguments: How it is set up.
        promise: What survives a crash, and what a crash repeats.
        is_ours: Whether it is dex_agents.
        in_history: Whether the cost of a turn over stored messages is measured too.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    promise: str
    is_ours: bool
    in_history: bool


_OURS: Final = "benches.end_to_end.turns"
_LANGGRAPH: Final = "benches.compare.langgraph_turns"

_IN_PYTHON: Final = (
    Candidate(
        "dex_agents, engine process, full",
        _OURS,
        ("--engine", "process", "--synchronous", "full"),
        "every Step is synced to disk before the next; a crash of Worker or engine repeats at most the "
        "running call",
        is_ours=True,
        in_history=True,
    ),
    Candidate(
        "dex_agents, engine process, normal",
        _OURS,
        ("--engine", "process", "--synchronous", "normal"),
        "the same after a crash of any process; a loss of power may lose the latest commits",
        is_ours=True,
        in_history=False,
    ),
    Candidate(
        "dex_agents, engine in process, full",
        _OURS,
        ("--engine", "thread", "--synchronous", "full"),
        "as the first; engine, Worker and client share one interpreter",
        is_ours=True,
        in_history=False,
    ),
    Candidate(
        "the SDK alone, engine process, full",
        "benches.end_to_end.bare_turns",
        (),
        "as the first, for a bare Flow that keeps texts and nothing else: what a session can come near to",
        is_ours=True,
        in_history=False,
    ),
    Candidate(
        "LangGraph, async (as shipped)",
        _LANGGRAPH,
        ("--durability", "async", "--synchronous", "shipped"),
        "a checkpoint is written while the next node runs, one task runs both tools: a crash may repeat the "
        "call before the running one, and tools that had finished",
        is_ours=False,
        in_history=True,
    ),
    Candidate(
        "LangGraph, sync, full",
        _LANGGRAPH,
        ("--durability", "sync", "--synchronous", "full", "--each-call-a-task"),
        "a checkpoint is synced to disk before the next node, every tool call is a task: the promise of the "
        "first row",
        is_ours=False,
        in_history=True,
    ),
    Candidate(
        "DBOS, SQLite (as shipped)",
        "benches.compare.dbos_turns",
        (),
        "every step is committed with a rollback journal before the next; a crash repeats at most the "
        "running calls. Keeps no conversation: a turn reads its own messages only. Its home is Postgres",
        is_ours=False,
        in_history=False,
    ),
)

_RESTATE: Final = Candidate(
    "Restate, one node (as shipped)",
    "benches.compare.restate_turns",
    (),
    "every step is in the server's synced log before the next; a crash repeats at most the running calls. "
    "Server, service and client are three processes; a session is one state key",
    is_ours=False,
    in_history=True,
)


def choose_candidates(restate_server: Path | None) -> tuple[Candidate, ...]:
    """Return every library that can run here; Restate needs the program of its server."""
    if restate_server is None:
        return _IN_PYTHON
    return (*_IN_PYTHON, replace(_RESTATE, arguments=("--server", str(restate_server))))
