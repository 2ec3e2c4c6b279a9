"""Listening addresses: `HOST:PORT` or `unix:/PATH`."""

from __future__ import annotations

import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dex_agents.errors import EngineAddressError

MAX_SOCKET_PATH_BYTES = 103
"""The longest path of a unix socket that every supported system takes."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where an engine listens.

    Attributes:
        given: The address as it was given, for messages.
        socket_path: Path of the unix socket, or `None` for TCP.
        host: Host of a TCP address.
        port: Port of a TCP address; 0 lets the system choose.
    """

    given: str
    socket_path: Path | None = None
    host: str = ""
    port: int = 0

    def build_target(self, bound_port: int) -> str:
        """Return what clients and Workers connect to."""
        return f"unix:{self.socket_path}" if self.socket_path is not None else f"{self.host}:{bound_port}"


def parse_address(address: str) -> ListenAddress:
    """Read a listening address.

    Raises:
        EngineAddressError: It is neither `HOST:PORT` nor `unix:/PATH`.
    """
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path.startswith("/"):
            raise EngineAddressError(address, "the path of a unix socket must be absolute")
        if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
            raise EngineAddressError(
                address, f"the path of a unix socket must not be longer than {MAX_SOCKET_PATH_BYTES} bytes"
            )
        return ListenAddress(address, Path(path))
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise EngineAddressError(address, "an address is HOST:PORT or unix:/PATH")
    return ListenAddress(address, None, host, int(port))


def claim_socket_path(address: ListenAddress) -> None:
    """Make room for a unix socket: remove one that nobody listens on any more.

    gRPC would replace whatever is there, the socket of a living process included.

    Raises:
        EngineAddressError: Something listens there, the path is another kind of file, or its folder is
            missing.
    """
    path = address.socket_path
    if path is None:
        return
    if not path.parent.is_dir():
        raise EngineAddressError(address.given, f"the directory {path.parent} does not exist")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise EngineAddressError(address.given, str(error.strerror)) from error
    if not stat.S_ISSOCK(mode):
        raise EngineAddressError(address.given, "the path exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise EngineAddressError(address.given, str(error.strerror)) from error
    raise EngineAddressError(address.given, "another process listens on this address")


def create_private_address() -> tuple[ListenAddress, Path]:
    """Return the address of a unix socket in a fresh folder that only this user may enter, and the folder."""
    folder = Path(tempfile.mkdtemp(prefix="dex-agents-"))
    path = folder / "engine.sock"
    return ListenAddress(f"unix:{path}", path), folder
