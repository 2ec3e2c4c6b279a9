"""The base of every Step here: an async `execute`, which the SDK runs and its signatures leave out."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from dex import AsyncContext, Step, StepDecision

__all__ = ["SessionStep"]

InputT = TypeVar("InputT")


class SessionStep(Step[InputT]):
    """A Step whose `execute` is a coroutine."""

    @abstractmethod
    async def execute(self, context: AsyncContext, input: InputT) -> StepDecision:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Load, decide, act, commit."""
