"""What a crash must not do, as far as it was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Findings", "count_findings"]


@dataclass
class Findings:
    """What was found.

    Attributes:
        repeated_writes: What happened more than once outside.
        lost_messages: Acknowledged messages that are not in the transcript exactly once.
        stuck_sessions: Sessions that did not become idle, or did not answer one message more.
        invalid_requests: Requests that a provider would refuse.
        other_problems: Records that are not true, calls without their result, answers that were not kept.
    """

    repeated_writes: list[str] = field(default_factory=list[str])
    lost_messages: list[str] = field(default_factory=list[str])
    stuck_sessions: list[str] = field(default_factory=list[str])
    invalid_requests: list[str] = field(default_factory=list[str])
    other_problems: list[str] = field(default_factory=list[str])

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


def count_findings(findings: Iterable[Findings]) -> str:
    """Return the four numbers that must be 0, for a line of results."""
    found = tuple(findings)
    return (
        f"writes repeated {sum(len(one.repeated_writes) for one in found)}, "
        f"acknowledged messages lost {sum(len(one.lost_messages) for one in found)}, "
        f"sessions stuck {sum(len(one.stuck_sessions) for one in found)}, "
        f"invalid provider requests {sum(len(one.invalid_requests) for one in found)}"
    )
