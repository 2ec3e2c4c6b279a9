"""Which libraries `bench_turns` runs, how each is set up, and what each then promises."""

from dataclasses import dataclass
from typing import Final

__all__ = ["CANDIDATES", "Candidate"]


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

CANDIDATES: Final = (
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
)
