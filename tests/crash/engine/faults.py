"""An engine process that a fault ends: a kill at a chosen moment of a commit, or a disk that is full.

    python -m tests.crash.engine.faults FOLDER FAULT NUMBER

FAULT is a moment of `MOMENTS`, and the process kills itself there the NUMBERth time; or `file-size`, and no
file can grow above NUMBER bytes.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from dex_agents.engine import running, serve
from dex_agents.engine.journal import Cells, Operation
from dex_agents.engine.store.database import Synchronous
from dex_agents.engine.store.writer import Folded, StoreWriter
from dex_agents.engine.values import Blob
from dex_agents.testing.processes import ChildProcess

MOMENTS = ("before a commit", "after a commit", "before a fold", "inside a fold", "after a fold")
_READY = "listening on "


class FaultyWriter(StoreWriter):
    """A store that ends its process in the middle of its work."""

    fault = ""
    number = 0

    def __init__(self, path: str, synchronous: Synchronous, history_events: int) -> None:
        # What the last process left is folded when the file is opened: that is not the moment that is meant.
        self._is_open = False
        super().__init__(path, synchronous, history_events)
        self._is_open = True

    def append(self, units: Sequence[tuple[int, Sequence[Operation]]], blobs: Sequence[Blob]) -> None:
        self._reach("before a commit")
        super().append(units, blobs)
        self._reach("after a commit")

    def fold(self) -> Folded:
        if not self.backlog:
            return super().fold()
        self._reach("before a fold")
        folded = super().fold()
        self._reach("after a fold")
        return folded

    def _trim_streams(self, messages: Sequence[Cells]) -> dict[int, int]:
        self._reach("inside a fold")
        return super()._trim_streams(messages)

    def _reach(self, moment: str) -> None:
        if self._is_open and moment == FaultyWriter.fault:
            FaultyWriter.number -= 1
            if FaultyWriter.number == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class FaultyEngine(ChildProcess):
    """Runs an engine on a folder until a fault ends it; without one it is an ordinary engine."""

    def __init__(self, folder: Path, fault: str = "none", number: int = 0) -> None:
        super().__init__("the engine", start_timeout=60)
        self._folder = folder
        self.fault = fault
        self.number = number

    @property
    def address(self) -> str:
        return f"unix:{self._folder}/engine.sock"

    async def wait(self) -> int:
        """Wait until it has ended."""
        return await self._latest().wait()

    def _arguments(self) -> Sequence[str]:
        return ("-m", "tests.crash.engine.faults", str(self._folder), self.fault, str(self.number))


async def run(folder: Path) -> None:
    await serve(
        folder / "engine.db",
        listen=f"unix:{folder}/engine.sock",
        on_ready=lambda address: print(f"{_READY}{address}", flush=True),
    )


if __name__ == "__main__":
    FaultyWriter.fault, FaultyWriter.number = sys.argv[2], int(sys.argv[3])
    if FaultyWriter.fault == "file-size":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FaultyWriter.number, FaultyWriter.number))
    setattr(running, "StoreWriter", FaultyWriter)  # noqa: B010 - the only way in: nobody else needs one
    try:
        asyncio.run(run(Path(sys.argv[1])))
    except Exception as error:  # noqa: BLE001 - what the test looks for in the log
        sys.exit(f"ended: {error}")
