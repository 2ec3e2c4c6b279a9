"""Listens on a unix socket or TCP address, and ends what it accepted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path

from dex_agents.engine.address import ListenAddress
from dex_agents.engine.transport.calls import Calls, OpenCall
from dex_agents.engine.transport.connection import Http2Connection

MAX_CONNECTIONS = 1024
"""Connections at a time; a further one is closed at once."""

SOCKET_MODE = 0o600
"""Who may connect to a unix socket: its owner."""

_BACKLOG = 128


class Listener:
    """Accepts connections and serves calls on them.

    Attributes:
        calls: The calls of all connections.
    """

    def __init__(self, methods: Mapping[str, OpenCall], token: str | None = None) -> None:
        """Prepare to serve; see `Calls` for the arguments."""
        self.calls = Calls(methods, token)
        self._connections: set[Http2Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._socket_path: Path | None = None
        self._is_empty = asyncio.Event()

    @property
    def connections(self) -> tuple[Http2Connection, ...]:
        """The open connections."""
        return tuple(self._connections)

    async def listen(self, address: ListenAddress) -> int:
        """Begin to accept connections and return the TCP port, or 0 for a unix socket.

        Raises:
            OSError: The address is taken or not one of this machine.
        """
        loop = asyncio.get_running_loop()
        if address.socket_path is not None:
            listening = _bind_unix(address.socket_path)
            self._socket_path = address.socket_path
            server = await loop.create_unix_server(self._accept, sock=listening, backlog=_BACKLOG)
            self._servers.append(server)
            return 0
        port = address.port
        for family, host in await _resolve(address.host):
            try:
                listening = _bind_tcp(family, host, port)
            except OSError:
                # A name may stand for several addresses, and the port that the first one got be taken there.
                if not self._servers or address.port:
                    raise
                continue
            port = listening.getsockname()[1]
            self._servers.append(await loop.create_server(self._accept, sock=listening, backlog=_BACKLOG))
        return port

    async def stop(self, grace_seconds: float) -> None:
        """Accept nothing more, let open calls come to their end for a while, then end them."""
        if self._socket_path is not None:
            # Before the socket closes: from then on it may be another engine's.
            self._socket_path.unlink(missing_ok=True)
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.announce_end()
        await self.calls.wait_over(grace_seconds)
        self.calls.interrupt()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            # Their transports report that they are closed on the next turns of the loop.
            self._is_empty.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self._is_empty.wait()
        for connection in list(self._connections):
            connection.abort()

    def _accept(self) -> asyncio.BaseProtocol:
        if len(self._connections) >= MAX_CONNECTIONS:
            return _Refusal()
        connection = Http2Connection(self.calls.open_stream, self._note_lost)
        self._connections.add(connection)
        return connection

    def _note_lost(self, connection: Http2Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()


class _Refusal(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _bind_unix(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as opened:
        opened.callback(listening.close)
        listening.bind(str(path))
        # Nobody can connect before it listens, so there is no moment at which it is open to others.
        path.chmod(SOCKET_MODE)
        opened.pop_all()
    return listening


def _bind_tcp(family: int, host: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    with contextlib.ExitStack() as opened:
        opened.callback(listening.close)
        # A port whose last engine has just ended may be used again; one that is in use may not.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        opened.pop_all()
    return listening


async def _resolve(host: str) -> list[tuple[int, str]]:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    found = await asyncio.get_running_loop().getaddrinfo(bare, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), str(where[0])) for family, _, _, _, where in found))
