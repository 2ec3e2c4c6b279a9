"""What the outside world saw of a long run: read as it grows, so that it is never held as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from dex_agents.builtin_loop import ModelRequest
from dex_agents.testing import Invocation
from tests.crash.agent import INVOCATIONS, ONCE_ONLY_TOOLS, REQUESTS, invocation_log
from tests.crash.verdict import find_invalid_requests, find_repeated_writes

__all__ = ["OutsideView"]


class OutsideView:
    """Reads the logs of the crash agents of one folder.

    Attributes:
        requests: Requests to the model that were judged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._position = 0
        self._runs: dict[str, list[Invocation]] = {}
        self.requests = 0

    def take_runs(self, session_id: str) -> list[Invocation]:
        """Return what tools did for a session; nobody is told of it again."""
        path = self._folder / INVOCATIONS
        if not path.exists():
            return []
        with path.open("rb") as log:
            log.seek(self._position)
            # The last line may be under way.
            whole = log.read().rpartition(b"\n")[0]
        self._position += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            run = msgspec.json.decode(line, type=Invocation)
            self._runs.setdefault(run.idempotency_key.partition("/")[0], []).append(run)
        return self._runs.pop(session_id, [])

    def find_repeated_writes(self) -> list[str]:
        """Return what happened more than once outside, over the whole run."""
        return find_repeated_writes(invocation_log(self._folder).read(), ONCE_ONLY_TOOLS)

    async def find_invalid_requests(self) -> list[str]:
        """Judge the requests up to the last call, and forget them; those since then are for the next."""
        return await asyncio.to_thread(self._judge_requests)

    def _judge_requests(self) -> list[str]:
        latest, earlier = self._folder / REQUESTS, self._folder / f"{REQUESTS}.earlier"
        problems: list[str] = []
        if earlier.exists():
            with earlier.open("rb") as log:
                for line in log:
                    self.requests += 1
                    problems += find_invalid_requests([msgspec.json.decode(line, type=ModelRequest)])
            earlier.unlink()
        if latest.exists():
            # Whoever has opened it writes one line more, long before the next call.
            latest.rename(earlier)
        return problems
