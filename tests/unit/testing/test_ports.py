from __future__ import annotations

import socket

import pytest

from dex_agents import InvalidInputError
from dex_agents.testing import find_free_loopback_ports


def test_the_ports_differ_and_can_be_listened_on() -> None:
    ports = find_free_loopback_ports(20)

    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_no_port_at_all_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"^count: must be at least 1, got 0$"):
        find_free_loopback_ports(0)
