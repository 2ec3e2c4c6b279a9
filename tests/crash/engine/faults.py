"""An engine process that a fault ends: a kill at a chosen moment of a commit, or a disk that is full.

    python -m tests.crash.engine.faults FAULT NUMBER UPKEEP [what follows `dex-agents`]

FAULT is a moment of `MOMENTS`, and the process kills itself there the NUMBERth time; or `file-size`, and no
file can grow above NUMBER bytes; or `none`. UPKEEP is `as shipped`, or `often` to fold and checkpoint so soon
that both come up in little work. A line `FAULT:NUMBER` on stdin takes the place of the fault that was given.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from dex_agents.cli.main import main
from dex_agents.engine import committer, running
from dex_agents.engine.journal import Cells, Operation
from dex_agents.engine.store.database import Synchronous
from dex_agents.engine.store.writer import Folded, StoreWriter
from dex_agents.engine.values import Blob
from dex_agents.testing import EngineProcess

__all__ = ["MOMENTS", "FaultyEngine", "Upkeep"]

MOMENTS: Final = (
    "before a commit",
    "after a commit",
    "before a fold",
    "inside a fold",
    "after a fold",
    "before a checkpoint",
    "after a checkpoint",
)

Upkeep = Literal["as shipped", "often"]

_NONE: Final = "none"
_TAKEN_BACK: Final = b"taken back\n"
_BACKLOG_OFTEN: Final = 32
_LOG_BYTES_OFTEN: Final = 64 * 1024


class FaultyWriter(StoreWriter):
    """A store that ends its process in the middle of its work."""

    fault = _NONE
    number = 0
    changing = threading.Lock()

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

    def checkpoint(self) -> None:
        self._reach("before a checkpoint")
        super().checkpoint()
        self._reach("after a checkpoint")

    def purge_log(self) -> bool:
        self._reach("before a checkpoint")
        purged = super().purge_log()
        self._reach("after a checkpoint")
        return purged

    def _trim_streams(self, messages: Sequence[Cells]) -> dict[int, int]:
        self._reach("inside a fold")
        return super()._trim_streams(messages)

    def _reach(self, moment: str) -> None:
        with FaultyWriter.changing:
            if self._is_open and moment == FaultyWriter.fault:
                FaultyWriter.number -= 1
                if FaultyWriter.number == 0:
                    os.kill(os.getpid(), signal.SIGKILL)


class FaultyEngine(EngineProcess):
    """Runs an engine until a fault ends it; without one it is an ordinary engine.

    Attributes:
        fault: With which the next process starts.
        number: See the module.
    """

    def __init__(
        self,
        database: Path,
        fault: str = _NONE,
        number: int = 0,
        *,
        upkeep: Upkeep = "as shipped",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(database)
        self.fault = fault
        self.number = number
        self._upkeep = upkeep
        self._options = options

    async def wait(self) -> int:
        """Wait until it has ended."""
        return await self._latest().wait()

    def arm(self, moment: str, number: int) -> None:
        """Have the running process kill itself when it comes to a moment of `MOMENTS` the `number`th time."""
        self._tell(moment, number)

    async def disarm(self) -> bool:
        """Take the kill back; tells whether that was in time. If not, the process has ended."""
        self._tell(_NONE, 0)
        stdout = self._latest().stdout
        assert stdout is not None
        answer = await stdout.readline()
        if answer == _TAKEN_BACK:
            return True
        await self.wait()
        return False

    def _tell(self, fault: str, number: int) -> None:
        stdin = self._latest().stdin
        assert stdin is not None
        # Into the pipe at once. To a process that has just ended it is lost, and whoever waits sees the end.
        stdin.write(f"{fault}:{number}\n".encode())

    def _arguments(self) -> Sequence[str]:
        _, _, *command = super()._arguments()
        own = ("-m", "tests.crash.engine.faults", self.fault, str(self.number), self._upkeep)
        return (*own, *command, *self._options)


def _take_orders() -> None:
    for line in sys.stdin:
        fault, _, number = line.strip().partition(":")
        with FaultyWriter.changing:
            FaultyWriter.fault, FaultyWriter.number = fault, int(number)
        if fault == _NONE:
            os.write(1, _TAKEN_BACK)


if __name__ == "__main__":
    FaultyWriter.fault, FaultyWriter.number = sys.argv[1], int(sys.argv[2])
    if FaultyWriter.fault == "file-size":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FaultyWriter.number, FaultyWriter.number))
    # The only ways in: nobody else needs one.
    setattr(running, "StoreWriter", FaultyWriter)  # noqa: B010
    if sys.argv[3] == "often":
        setattr(committer, "FOLD_BACKLOG", _BACKLOG_OFTEN)  # noqa: B010
        setattr(committer, "IDLE_LOG_BYTES", _LOG_BYTES_OFTEN)  # noqa: B010
    threading.Thread(target=_take_orders, daemon=True).start()
    sys.exit(main(sys.argv[4:]))
