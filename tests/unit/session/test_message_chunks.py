"""How messages are packed: what a commit writes stays in proportion to what is new."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dex_agents.session.transitions.messages import number_messages, plan_joined_chunks
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, MessageChunk

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
