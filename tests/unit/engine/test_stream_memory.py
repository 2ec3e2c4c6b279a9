"""What the streams hold in memory is what can still be read from there."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.store.reader import StreamMessageRow
from dex_agents.engine.store.writer import Folded
from dex_agents.engine.streams import StreamKey, Streams
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers
from tests.unit.engine.building import NOW

MESSAGES = 200
MESSAGE_BYTES = 20_000


class EmptyArchive:
    async def load_after(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        return ()

    async def load_before(self, stream: int, sequence: int, limit: int) -> Sequence[StreamMessageRow]:
        return ()

    async def has_message(self, stream: int, sequence: int) -> bool:
        return False


class Room:
    """Streams whose units are durable at once."""

    def __init__(self) -> None:
        self.streams = Streams(EmptyArchive(), (), 0)
        self._units = 0

    def append(self, key: StreamKey) -> int:
        """Append a message and return the sequence of its unit."""
        unit = self._unit()
        value = pb.Value(string_value="x" * MESSAGE_BYTES)
        self.streams.append(key, value, unit, capacity=0, source="test", now=NOW)
        for effect in unit.effects:
            effect()
        return unit.sequence

    def remove(self, flow_id: str) -> int:
        """Remove the streams of a Flow ID and return the sequence of the unit."""
        unit = self._unit()
        assert self.streams.remove(flow_id, unit)
        return unit.sequence

    def _unit(self) -> Unit:
        self._units += 1
        unit = Unit(BlobNumbers("00c0ffee", 0), {}, NOW)
        unit.sequence = self._units
        return unit


@pytest.fixture
def memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read_memory() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("memory")
@pytest.mark.requirement("engine-memory")
def test_removed_streams_leave_memory_though_an_older_message_of_a_quiet_one_is_kept() -> None:
    room = Room()
    room.append(StreamKey("Agent", "events", "quiet"))
    before = read_memory()
    for number in range(MESSAGES):
        room.append(StreamKey("Agent", "events", f"closed-{number}"))
        room.streams.note_folded(Folded(room.remove(f"closed-{number}")))
    assert read_memory() - before < 5 * MESSAGE_BYTES


@pytest.mark.usefixtures("memory")
@pytest.mark.requirement("engine-memory")
def test_trimmed_messages_leave_memory_though_an_older_one_of_another_group_is_kept() -> None:
    room = Room()
    room.append(StreamKey("Quiet", "events", "s"))
    before = read_memory()
    for sequence in range(2, MESSAGES + 2):
        # The second group keeps one message.
        room.streams.note_folded(Folded(room.append(StreamKey("Busy", "events", "s")), {2: sequence}))
    assert read_memory() - before < 5 * MESSAGE_BYTES


async def test_a_message_that_is_kept_in_memory_is_read_after_others_have_left_it() -> None:
    room = Room()
    quiet = StreamKey("Agent", "events", "quiet")
    room.append(quiet)
    for number in range(5):
        room.append(StreamKey("Agent", "events", f"closed-{number}"))
        room.streams.note_folded(Folded(room.remove(f"closed-{number}")))
    room.append(quiet)
    first = await room.streams.read(quiet, "", 0)
    second = await room.streams.read(quiet, str(first.sequence), 0)
    assert (first.sequence, second.sequence) == (1, 7)
