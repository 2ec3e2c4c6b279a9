from __future__ import annotations

import asyncio

import pytest

from dex_agents.builtin_loop.model_clients.answer_stream import ClientOfEachLoop


class Connections:
    """Stands for what belongs to an event loop."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


def test_each_event_loop_has_a_client_of_its_own_and_keeps_it() -> None:
    clients = ClientOfEachLoop(Connections, Connections.close)

    async def get_twice() -> Connections:
        first, second = await asyncio.gather(clients.get(), clients.get())
        assert first is second
        return first

    assert asyncio.run(get_twice()) is not asyncio.run(get_twice())


async def test_a_closed_client_is_made_again() -> None:
    clients = ClientOfEachLoop(Connections, Connections.close)
    first = await clients.get()
    await clients.aclose()
    await clients.aclose()
    assert first.is_closed
    second = await clients.get()
    assert second is not first
    assert not second.is_closed


async def test_a_client_that_could_not_be_made_is_tried_again() -> None:
    problems = [RuntimeError("no key"), None]

    def build() -> Connections:
        problem = problems.pop(0)
        if problem is not None:
            raise problem
        return Connections()

    clients = ClientOfEachLoop(build, Connections.close)
    with pytest.raises(RuntimeError, match="no key"):
        await clients.get()
    assert isinstance(await clients.get(), Connections)
