"""When a conversation is too long for its model, and how much of it stays: pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from dex_agents.errors import InvalidInputError

__all__ = ["CompactionPolicy"]


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy:
    """Keeps the input of model calls below a context window.

    When the estimated input reaches `trigger_ratio` of the window, a summary takes the place of the older
    messages and about `retained_ratio` of the window stays as it is. Needs a runner that implements
    `CompactsContext`, as the built-in loop's does.

    Attributes:
        context_window_tokens: Input tokens that the model takes, less what its answer may need; at least 1.
        trigger_ratio: Above `retained_ratio`, at most 1.
        retained_ratio: Above 0.

    Raises:
        InvalidInputError: A number is out of its range.
    """

    context_window_tokens: int
    trigger_ratio: float = 0.85
    retained_ratio: float = 0.3

    def __post_init__(self) -> None:
        """Check every number."""
        if self.context_window_tokens < 1:
            raise InvalidInputError(
                "context_window_tokens", f"must be at least 1, got {self.context_window_tokens}"
            )
        if not 0 < self.retained_ratio < 1:
            raise InvalidInputError(
                "retained_ratio", f"must be above 0 and below 1, got {self.retained_ratio}"
            )
        if not self.retained_ratio < self.trigger_ratio <= 1:
            raise InvalidInputError(
                "trigger_ratio", f"must be above retained_ratio and at most 1, got {self.trigger_ratio}"
            )

    @property
    def retained_tokens(self) -> int:
        """About how many tokens of messages stay as they are; at least 1."""
        return max(1, int(self.context_window_tokens * self.retained_ratio))

    def is_due(self, estimated_tokens: int) -> bool:
        """Tell whether an input is so long that it must be compacted."""
        return estimated_tokens >= self.context_window_tokens * self.trigger_ratio

    def is_overflow(self, estimated_tokens: int) -> bool:
        """Tell whether an input is longer than the model takes."""
        return estimated_tokens > self.context_window_tokens
