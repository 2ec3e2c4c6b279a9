"""The local engine as a process that a test can kill."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dex_agents.testing.processes import ChildProcess

__all__ = ["EngineProcess"]

_READY: Final = "dex-agents engine: listening on "


class EngineProcess(ChildProcess):
    """Runs `dex-agents engine` on a database, at an address that a restart keeps.

    As an async context it is killed at the end::

        async with EngineProcess(tmp_path / "agents.db") as engine:
            ...                      # engine.server_address
            await engine.kill()
            await engine.start()     # the same database, the same address

    Durability:
        What the engine acknowledged is in the database, whenever it is killed.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        *,
        listen: str | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        """Name the database; nothing is started yet.

        Args:
            database: The engine's file; made when it does not exist.
            listen: Where to listen. By default a Unix socket in a private folder of its own, which is short
                enough for the system's limit however deep the test's folder is.
            start_timeout: Seconds until the engine must answer.

        Raises:
            InvalidInputError: `start_timeout` is not more than 0.
        """
        super().__init__("the engine", start_timeout=start_timeout)
        self._database = Path(database)
        self._address = listen

    @property
    def server_address(self) -> str:
        """Where the engine listens, or would while it is down.

        Raises:
            RuntimeError: The context is not entered.
        """
        if self._address is None:
            raise RuntimeError("the engine has no address before its context is entered")
        return self._address

    def _prepare(self, folder: Path) -> None:
        if self._address is None:
            self._address = f"unix:{folder}/engine.sock"

    def _arguments(self) -> Sequence[str]:
        return ("-m", "dex_agents", "engine", "--data", str(self._database), "--listen", self.server_address)

    def _on_ready(self, line: str) -> None:
        # The address may have been asked for with port 0: whoever restarts wants the one that was given then.
        if line.startswith(_READY):
            self._address = line.removeprefix(_READY)
