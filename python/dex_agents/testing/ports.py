"""Free ports for servers of a test."""

from __future__ import annotations

import contextlib
import socket

from dex_agents.errors import InvalidInputError

__all__ = ["find_free_loopback_ports"]


def find_free_loopback_ports(count: int) -> tuple[int, ...]:
    """Return ports of `127.0.0.1` that nothing listens on.

    All are held open until the last is found, so they differ. Nothing keeps them free afterwards: where a
    server can be asked for port 0, do that instead.

    Args:
        count: How many, at least 1.

    Raises:
        InvalidInputError: `count` is less than 1.
        OSError: The machine has not that many.
    """
    if count < 1:
        raise InvalidInputError("count", f"must be at least 1, got {count!r}")
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return tuple(int(listener.getsockname()[1]) for listener in listeners)
