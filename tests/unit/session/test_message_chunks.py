"""How messages are packed: what a commit writes stays in proportion to what is new."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.session.state import TurnView
from dex_agents.session.transitions.context import compact_context
from dex_agents.session.transitions.messages import number_messages, plan_joined_chunks
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, MessageChunk
from dex_agents.wire.sessions import AgentTurnState, SessionRecord

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _apply(
    stored: dict[int, MessageChunk], open_chunks: tuple[int, ...], sizes: list[int]
) -> tuple[int, ...]:
    messages = [message for key in sorted(stored) for message in stored[key].messages]
    added = number_messages(
        [FrameworkMessage("user", "x" * size) for size in sizes],
        next_sequence=len(messages) + 1,
        turn_id="turn-1",
        now=NOW,
    )
    plan = plan_joined_chunks(open_chunks, messages, added)
    for key in plan.deletes:
        del stored[key]
    for chunk in plan.writes:
        stored[chunk.messages[0].sequence] = chunk
    return plan.open_chunks


@given(st.lists(st.lists(st.integers(0, 60_000), max_size=4), max_size=120))
def test_chunks_always_hold_every_message_once_and_in_order(commits: list[list[int]]) -> None:
    stored: dict[int, MessageChunk] = {}
    open_chunks: tuple[int, ...] = ()
    for sizes in commits:
        open_chunks = _apply(stored, open_chunks, sizes)
        messages: list[AgentMessage] = []
        for key in sorted(stored):
            assert stored[key].messages[0].sequence == key
            messages += stored[key].messages
        assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
        assert set(open_chunks) <= set(stored)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=150))
def test_no_message_is_lost_behind_a_summary_and_every_chunk_that_is_read_is_named(
    commits: list[tuple[int, int]],
) -> None:
    stored: dict[int, MessageChunk] = {}
    record = SessionRecord(started_at=NOW)
    for count, covered in commits:
        added = number_messages(
            [FrameworkMessage("note", "x" * 30_000)] * count,
            next_sequence=record.next_sequence,
            turn_id="turn-1",
            now=NOW,
        )
        chunks = record.chunks or tuple(sorted(stored))
        read = [
            one for key in chunks for one in stored[key].messages if one.sequence > record.covered_through
        ]
        plan = plan_joined_chunks(record.open_chunks, read, added)
        for key in plan.deletes:
            del stored[key]
        stored.update((chunk.messages[0].sequence, chunk) for chunk in plan.writes)
        record = msgspec.structs.replace(
            record,
            next_sequence=record.next_sequence + count,
            open_chunks=plan.open_chunks,
            chunks=plan.update_chunks(record.chunks),
        )
        cut = record.covered_through + covered
        if covered and cut < record.next_sequence - 1:
            record = _cover(record, stored, cut)

    messages = [one.sequence for key in sorted(stored) for one in stored[key].messages]
    assert messages == list(range(1, record.next_sequence))
    named = {one.sequence for key in record.chunks or stored for one in stored[key].messages}
    assert named >= set(range(record.covered_through + 1, record.next_sequence))


def _cover(record: SessionRecord, stored: dict[int, MessageChunk], cut: int) -> SessionRecord:
    turn = AgentTurnState(number=1, started_at=NOW, first_sequence=1)
    chunks = record.chunks or tuple(sorted(stored))
    messages = [
        one for key in chunks for one in stored[key].messages if one.sequence > record.covered_through
    ]
    record = msgspec.structs.replace(record, turn=turn)
    view = TurnView(record=record, turn=turn, messages=messages, tool_calls=(), chunks=chunks)
    return compact_context(view, cut, "summary", NOW).record


def test_a_long_session_has_few_chunks_and_rewrites_each_message_once() -> None:
    stored: dict[int, MessageChunk] = {}
    open_chunks: tuple[int, ...] = ()
    written = 0
    for _ in range(2_000):
        before = dict(stored)
        open_chunks = _apply(stored, open_chunks, [200])
        written += sum(len(chunk.messages) for key, chunk in stored.items() if before.get(key) is not chunk)
    assert len(stored) < 2_000 / 16
    assert written <= 2 * 2_000
