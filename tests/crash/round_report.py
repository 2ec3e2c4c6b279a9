"""What became of one round of the crash suite."""

from __future__ import annotations

from dataclasses import dataclass, field

from dex_agents import AgentSnapshot

__all__ = ["RoundReport"]


@dataclass
class RoundReport:
    """What became of a round.

    Attributes:
        repeated_writes: What happened more than once outside.
        lost_messages: Acknowledged messages that are not in the transcript exactly once.
        stuck_sessions: Sessions that did not become idle, or did not answer one message more.
        invalid_requests: Requests that a provider would refuse.
        other_problems: Records that are not true, calls without their result, answers that were not kept.
        settled: What the sessions looked like at the end.
        answers: Answers to questions that took effect.
        summaries: Summaries that took the place of older messages.
        seconds: How long it took.
    """

    repeated_writes: list[str] = field(default_factory=list[str])
    lost_messages: list[str] = field(default_factory=list[str])
    stuck_sessions: list[str] = field(default_factory=list[str])
    invalid_requests: list[str] = field(default_factory=list[str])
    other_problems: list[str] = field(default_factory=list[str])
    settled: list[AgentSnapshot] = field(default_factory=list[AgentSnapshot])
    answers: int = 0
    summaries: int = 0
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """Everything that was found."""
        return [
            *(f"repeated: {one}" for one in self.repeated_writes),
            *(f"lost: {one}" for one in self.lost_messages),
            *(f"stuck: {one}" for one in self.stuck_sessions),
            *(f"invalid: {one}" for one in self.invalid_requests),
            *self.other_problems,
        ]
