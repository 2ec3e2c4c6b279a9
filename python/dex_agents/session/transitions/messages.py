"""Messages: numbering what a runner hands over, and packing it into chunks that keep commits small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, MessageChunk

__all__ = ["ChunkPlan", "as_framework_message", "number_messages", "plan_chunks", "plan_joined_chunks"]

_CHUNKS_BEFORE_JOINING: Final = 32
"""A commit loads every chunk, so there must not be too many; joining rewrites them, so it must be rare."""

_JOINED_CHUNK_CHARACTERS: Final = 128 * 1024
"""Upper size of a joined chunk; a single larger commit stays a chunk of its own."""


@dataclass(frozen=True)
class ChunkPlan:
    """What to do to the message map.

    Attributes:
        writes: Chunks to write, each under the sequence number of its first message.
        deletes: Keys of chunks that were joined into another one.
        open_chunks: Keys of the chunks that are not joined yet, as they become.
    """

    writes: tuple[MessageChunk, ...]
    deletes: tuple[int, ...]
    open_chunks: tuple[int, ...]

    def update_chunks(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Return `SessionRecord.chunks` as it becomes; while that is empty, nobody needs to name a chunk."""
        if not chunks:
            return ()
        written = (chunk.messages[0].sequence for chunk in self.writes)
        return tuple(sorted(set(chunks).difference(self.deletes).union(written)))


def number_messages(
    messages: Sequence[FrameworkMessage],
    *,
    next_sequence: int,
    turn_id: str,
    now: datetime,
    message_id: str | None = None,
) -> tuple[AgentMessage, ...]:
    """Return messages as they are stored, numbered from `next_sequence`; lone surrogates become U+FFFD."""
    return tuple(
        AgentMessage(
            sequence=next_sequence + offset,
            turn_id=turn_id,
            role=message.role,
            framework_item=replace_lone_surrogates(message.framework_item),
            stored_at=now,
            message_id=message_id,
            text=_heal(message.text),
            tool_call_id=_heal(message.tool_call_id),
            tool_name=_heal(message.tool_name),
            tool_arguments=_heal(message.tool_arguments),
            tool_output=_heal(message.tool_output),
            images=message.images,
        )
        for offset, message in enumerate(messages)
    )


def as_framework_message(message: AgentMessage) -> FrameworkMessage:
    """Return a stored message as its runner handed it over."""
    return FrameworkMessage(
        role=message.role,
        framework_item=message.framework_item,
        text=message.text,
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        tool_arguments=message.tool_arguments,
        tool_output=message.tool_output,
        images=message.images,
    )


def plan_chunks(open_chunks: tuple[int, ...], new_messages: tuple[AgentMessage, ...]) -> ChunkPlan:
    """Write new messages as a chunk of their own."""
    if not new_messages:
        return ChunkPlan((), (), open_chunks)
    return ChunkPlan((MessageChunk(new_messages),), (), (*open_chunks, new_messages[0].sequence))


def plan_joined_chunks(
    open_chunks: tuple[int, ...], messages: Sequence[AgentMessage], new_messages: tuple[AgentMessage, ...]
) -> ChunkPlan:
    """Write new messages, and join the open chunks when there are many.

    Each message is rewritten once at most, so what a session writes stays in proportion to what is new.

    Args:
        open_chunks: Keys of the chunks that are not joined yet.
        messages: The stored messages that no summary covers, in sequence order. A chunk that is covered in
            part is not joined: its beginning is not among them.
        new_messages: What this commit adds.
    """
    if messages:
        open_chunks = tuple(key for key in open_chunks if key >= messages[0].sequence)
    if len(open_chunks) < _CHUNKS_BEFORE_JOINING:
        return plan_chunks(open_chunks, new_messages)
    joined = _pack([message for message in messages if message.sequence >= open_chunks[0]])
    kept = {chunk.messages[0].sequence for chunk in joined}
    appended = plan_chunks((), new_messages)
    return ChunkPlan(
        writes=(*joined, *appended.writes),
        deletes=tuple(key for key in open_chunks if key not in kept),
        open_chunks=appended.open_chunks,
    )


def _pack(messages: Sequence[AgentMessage]) -> tuple[MessageChunk, ...]:
    chunks: list[MessageChunk] = []
    pending: list[AgentMessage] = []
    size = 0
    for message in messages:
        weight = len(message.framework_item) + len(message.text or "") + len(message.tool_output or "")
        if pending and size + weight > _JOINED_CHUNK_CHARACTERS:
            chunks.append(MessageChunk(tuple(pending)))
            pending, size = [], 0
        pending.append(message)
        size += weight
    if pending:
        chunks.append(MessageChunk(tuple(pending)))
    return tuple(chunks)


def _heal(text: str | None) -> str | None:
    return None if text is None else replace_lone_surrogates(text)
