"""Where the files of one command-line agent are: `~/.dex/agents/<name>.*`, for this user alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from dex_agents.errors import InvalidInputError

__all__ = ["DEFAULT_AGENT", "AgentFiles", "write_private_file"]

DEFAULT_AGENT: Final = "default"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_SOCKET_PATH_BYTES: Final = 103
"""The longest path of a unix socket that every supported system takes."""


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The files of one agent.

    Attributes:
        name: The agent's name.
        config: What the agent is; the only file that a person edits.
        database: The engine's database, which holds every session.
        start_lock: Held by whoever starts the host.
        host_log: What the host last had to say.
        history: What was typed at the prompt.
        images: The folder of the images that its sessions hold.
        socket_folder: Where the host and its engine listen.
    """

    name: str
    config: Path
    database: Path
    start_lock: Path
    host_log: Path
    history: Path
    images: Path
    socket_folder: Path

    @classmethod
    def locate(cls, name: str | None = None, config: Path | None = None) -> Self:
        """Return the files of an agent; nothing is created.

        Args:
            name: Of an agent in `~/.dex/agents`; `default` when it is left out.
            config: A configuration file elsewhere; the agent's other files are beside it.

        Raises:
            InvalidInputError: The name cannot be that of a file, or both arguments are given.
        """
        if config is not None:
            if name is not None:
                raise InvalidInputError("agent", "a name and a configuration file exclude each other")
            config = config.expanduser().absolute()
            if config.suffix not in (".yaml", ".yml"):
                raise InvalidInputError("config", f"{config}: a configuration file ends in .yaml")
        else:
            chosen = DEFAULT_AGENT if name is None else name
            if not _NAME.fullmatch(chosen):
                raise InvalidInputError(
                    "agent", f"{chosen!r}: a name has 1 to 64 letters, digits, - or _, and no - or _ first"
                )
            config = Path.home() / ".dex" / "agents" / f"{chosen}.yaml"
        stem = config.with_suffix("")
        return cls(
            name=stem.name,
            config=config,
            database=stem.with_suffix(".db"),
            start_lock=stem.with_suffix(".start.lock"),
            host_log=stem.with_suffix(".log"),
            history=stem.with_suffix(".history"),
            images=stem.with_suffix(".images"),
            socket_folder=_locate_sockets(stem),
        )

    @property
    def host_socket(self) -> Path:
        """Where the host greets whoever needs it."""
        return self.socket_folder / f"{self.name}.host.sock"

    @property
    def engine_socket(self) -> Path:
        """Where the host's engine listens."""
        return self.socket_folder / f"{self.name}.engine.sock"

    def make_config_folder(self) -> None:
        """Make the folder of the configuration, for this user alone.

        Raises:
            InvalidInputError: It cannot be made, belongs to somebody else, or others may write to it.
        """
        folder = self.config.parent
        status = _make_folder(folder)
        if folder == _default_folder():
            folder.chmod(0o700)
        elif status.st_mode & 0o022:
            raise InvalidInputError("config", f"{folder}: others may write to this folder")

    def make_socket_folder(self) -> None:
        """Make the folder of the sockets, which take commands from whoever reaches them; the host does.

        Raises:
            InvalidInputError: It cannot be made, is a link, or belongs to somebody else.
        """
        # Its name in the folder for temporary files can be guessed, so somebody may have been there first.
        if self.socket_folder.is_symlink():
            raise InvalidInputError("config", f"{self.socket_folder}: the folder of the sockets is a link")
        _make_folder(self.socket_folder)
        self.socket_folder.chmod(0o700)

    def remove_sockets(self) -> None:
        """Remove the sockets of a host that has ended, and their folder when it held nothing else."""
        for path in (self.host_socket, self.engine_socket):
            path.unlink(missing_ok=True)
        if self.socket_folder != self.config.parent:
            with contextlib.suppress(OSError):
                self.socket_folder.rmdir()


def _make_folder(folder: Path) -> os.stat_result:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise InvalidInputError("config", f"{folder}: {error.strerror}") from error
    if status.st_uid != os.getuid():
        raise InvalidInputError("config", f"{folder}: the folder belongs to somebody else")
    return status


def write_private_file(path: Path, text: str) -> None:
    """Make a new file that only this user may read.

    Raises:
        FileExistsError: There is such a file.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _default_folder() -> Path:
    return Path.home() / ".dex" / "agents"


def _locate_sockets(stem: Path) -> Path:
    longest = stem.with_suffix(".engine.sock")
    if stem.parent == _default_folder() and len(os.fsencode(longest)) <= _MAX_SOCKET_PATH_BYTES:
        return stem.parent
    # A long path cannot name a socket; everybody who starts from the same configuration finds this one.
    digest = hashlib.sha256(os.fsencode(stem)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"dex-agents-{os.getuid()}-{digest}"
