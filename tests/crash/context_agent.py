"""The agent of the crash tests about long conversations and money.

A Worker process builds it with `create_flow(folder, *pause_at)`. Its gates: `summary`, `answer` and
`answer behind a summary` before the model answers, and `told` right after the spend limiter was told of a
call: everything is paid and nothing is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dex_agents import AgentSessionFlow, CompactionPolicy, SpendReport, texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    create_builtin_agent_session_flow,
)
from dex_agents.spend_limits import SpendLimit, SqliteSpendLimiter
from dex_agents.testing import FileGate

__all__ = ["ANSWER", "create_flow", "gate_at", "open_limiter", "read_calls"]

ANSWER: Final = "word " * 150


def gate_at(folder: Path, point: str) -> FileGate:
    """Return the gate of a point."""
    return FileGate(folder / f"gate {point}")


def open_limiter(folder: Path, max_calls: int) -> SqliteSpendLimiter:
    """Return a limiter on the ledger that all Workers share."""
    return SqliteSpendLimiter(folder / "spend.db", {"host": SpendLimit(max_calls=max_calls)})


def read_calls(folder: Path) -> list[str]:
    """Return what the model was asked for, `summary` or `answer`, in order, over all Workers."""
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


def create_flow(folder: str, *pause_at: str) -> AgentSessionFlow:
    """Return the agent, with gates at the points named."""
    place = Path(folder)
    points = frozenset(pause_at)

    async def script(request: ModelRequest) -> ScriptedModelReply:
        is_summary = request.instructions == texts.CONTEXT_SUMMARY_INSTRUCTIONS
        point = "summary" if is_summary else "answer"
        _write_line(place / "calls.txt", point)
        first = ScriptedModelClient.user_texts(request)[0]
        if not is_summary and first.startswith(texts.CONTEXT_SUMMARY_NOTE_HEADER):
            point = "answer behind a summary"
        if point in points:
            await gate_at(place, point).arrive()
        return ScriptedModelReply(text="what was said" if is_summary else ANSWER)

    definition = AgentDefinition(
        name="context agent",
        model=ScriptedModelClient(script),
        compaction=CompactionPolicy(context_window_tokens=1_000),
        spend_limiter=_GatedLimiter(place, points),
    )
    return create_builtin_agent_session_flow(definition, "ContextAgent")


class _GatedLimiter(SqliteSpendLimiter):
    def __init__(self, folder: Path, points: frozenset[str]) -> None:
        super().__init__(folder / "spend.db", {"host": SpendLimit(max_calls=1_000)})
        self._gate = gate_at(folder, "told") if "told" in points else None

    async def report(self, report: SpendReport) -> None:
        await super().report(report)
        if self._gate is not None:
            await self._gate.arrive()


def _write_line(path: Path, line: str) -> None:
    # One write to a file opened for appending is not mixed with that of another process.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
