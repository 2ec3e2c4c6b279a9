"""Attribute locks: held in memory by running attempts and RPCs, gone with the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from dex_agents.engine.state import Run
from dex_agents.engine.tasks import Task


class Locks:
    """Lets attempts wait for locks. An RPC does not wait: it takes its keys or is refused."""

    def __init__(self, resume: Callable[[Task], None]) -> None:
        """Begin with no lock held.

        Args:
            resume: Called with every task that waited, once a key of its run is free.
        """
        self._resume = resume
        self._waiting: dict[int, deque[Task]] = {}

    def find_held(self, run: Run, keys: Collection[str]) -> str | None:
        """Return one of the keys that is held by somebody, or `None`."""
        return next((key for key in keys if key in run.locks), None)

    def take(self, run: Run, keys: Collection[str]) -> None:
        """Hold keys; none of them may be held."""
        run.locks.update(keys)

    def release(self, run: Run, keys: Collection[str]) -> None:
        """Give keys back, and let whoever waits for the run's locks try again, in order."""
        if keys:
            run.locks.difference_update(keys)
            for task in self._waiting.pop(run.number, ()):
                self._resume(task)

    def wait(self, task: Task) -> None:
        """Keep a task until a lock of its run is released."""
        self._waiting.setdefault(task.run.number, deque()).append(task)
