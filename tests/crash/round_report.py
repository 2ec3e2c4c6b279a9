"""What became of one round of the crash suite."""

from __future__ import annotations

from dataclasses import dataclass, field

from dex_agents import AgentSnapshot
from tests.crash.findings import Findings
from tests.crash.killer import KillCounts

__all__ = ["RoundReport"]


@dataclass
class RoundReport:
    """What became of a round.

    Attributes:
        findings: What a crash must not do, and did.
        kills: What was killed.
        settled: What the sessions looked like at the end.
        answers: Answers to questions that took effect.
        summaries: Summaries that took the place of older messages.
        seconds: How long it took.
    """

    findings: Findings = field(default_factory=Findings)
    kills: KillCounts = field(default_factory=KillCounts)
    settled: list[AgentSnapshot] = field(default_factory=list[AgentSnapshot])
    answers: int = 0
    summaries: int = 0
    seconds: float = 0.0
