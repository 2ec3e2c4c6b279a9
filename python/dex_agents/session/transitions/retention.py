"""What a session deletes of its past when a turn has ended.

Only what a summary covers goes, unless the application lets uncovered messages go too. What goes is a
beginning of the transcript: numbers stay, so that `SessionRecord.dropped_messages` says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from dex_agents.wire.messages import AgentMessage, MessageChunk
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["RetentionPlan", "RetentionRules", "is_retention_due", "plan_retention"]

_SLACK: Final = 8
"""A pass reads all that is stored, so it waits until an eighth of what is to stay can go."""


@dataclass(frozen=True, kw_only=True)
class RetentionRules:
    """How much of its past a session keeps; with both numbers a message goes when neither keeps it.

    Attributes:
        keep_messages: The latest messages, or `None` for no such rule.
        keep_turns: The messages of the latest turns, or `None` for no such rule.
        drop_uncovered: Whether messages that no summary covers go too; the model then no longer knows them.
    """

    keep_messages: int | None = None
    keep_turns: int | None = None
    drop_uncovered: bool = False


@dataclass(frozen=True, kw_only=True)
class RetentionPlan:
    """What one pass deletes.

    Attributes:
        record: The session as it becomes.
        deletes: Keys of chunks to delete.
        writes: Chunks of which only the end stays.
        tool_call_ids: Records to delete.
        message_ids: IDs under which deleted messages were accepted.
    """

    record: SessionRecord
    deletes: tuple[int, ...] = ()
    writes: tuple[MessageChunk, ...] = ()
    tool_call_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()


def is_retention_due(record: SessionRecord, rules: RetentionRules) -> bool:
    """Tell from the record alone whether a pass is worth its reads."""
    if rules.keep_messages is None and rules.keep_turns is None:
        return False
    end = record.next_sequence if rules.drop_uncovered else record.covered_through + 1
    slack = 0
    if rules.keep_messages is not None:
        end = min(end, record.next_sequence - rules.keep_messages)
        slack = rules.keep_messages // _SLACK
    if rules.keep_turns is not None:
        since = record.turn_count - max(record.retention_turn, rules.keep_turns)
        if since <= rules.keep_turns // _SLACK:
            return False
    return end - 1 - record.dropped_messages > slack


def plan_retention(
    record: SessionRecord,
    rules: RetentionRules,
    chunks: Sequence[MessageChunk],
    tool_calls: Iterable[AgentToolCall],
) -> RetentionPlan:
    """Return what one pass deletes; between turns only.

    Args:
        record: The session, without a running turn.
        rules: What the application keeps.
        chunks: All that are stored, in order.
        tool_calls: All records.
    """
    messages = [message for chunk in chunks for message in chunk.messages]
    first = _find_first_kept(record, rules, messages)
    passed = msgspec.structs.replace(record, retention_turn=record.turn_count)
    if first <= record.dropped_messages + 1:
        return RetentionPlan(record=passed)
    dropped = [message for message in messages if message.sequence < first]
    writes = tuple(
        MessageChunk(kept)
        for chunk in chunks
        if chunk.messages[0].sequence < first
        and (kept := tuple(message for message in chunk.messages if message.sequence >= first))
    )
    deletes = tuple(chunk.messages[0].sequence for chunk in chunks if chunk.messages[0].sequence < first)
    left = [*writes, *(chunk for chunk in chunks if chunk.messages[0].sequence >= first)]
    covered_through = max(record.covered_through, first - 1)
    return RetentionPlan(
        record=msgspec.structs.replace(
            passed,
            dropped_messages=first - 1,
            covered_through=covered_through,
            chunks=_chunks_to_name(left, covered_through, first),
            open_chunks=tuple(key for key in record.open_chunks if key >= first),
        ),
        deletes=deletes,
        writes=writes,
        tool_call_ids=_find_dropped_calls(dropped, messages, first, tool_calls),
        message_ids=tuple(one.message_id for one in dropped if one.message_id is not None),
    )


def _find_first_kept(record: SessionRecord, rules: RetentionRules, messages: Sequence[AgentMessage]) -> int:
    first = record.next_sequence
    if rules.keep_messages is not None:
        first = min(first, record.next_sequence - rules.keep_messages)
    if rules.keep_turns is not None:
        last_dropped_turn = record.turn_count - rules.keep_turns
        kept = (one.sequence for one in messages if _turn_number(one.turn_id) > last_dropped_turn)
        first = min(first, next(kept, record.next_sequence))
    if not rules.drop_uncovered:
        return min(first, record.covered_through + 1)
    if first <= record.covered_through + 1:
        return first
    # What the model still reads must begin with a whole turn: a result without its call would be unreadable.
    starts = [
        after.sequence
        for before, after in pairwise(messages)
        if before.turn_id != after.turn_id and after.sequence <= first
    ]
    return max([record.covered_through + 1, *starts])


def _chunks_to_name(chunks: Sequence[MessageChunk], covered_through: int, first: int) -> tuple[int, ...]:
    if covered_through < first:
        return ()
    return tuple(
        chunk.messages[0].sequence for chunk in chunks if chunk.messages[-1].sequence > covered_through
    )


def _find_dropped_calls(
    dropped: Sequence[AgentMessage],
    messages: Sequence[AgentMessage],
    first: int,
    tool_calls: Iterable[AgentToolCall],
) -> tuple[str, ...]:
    # Something always stays: a turn has a message, and no summary covers the latest one.
    first_turn = next(_turn_number(one.turn_id) for one in messages if one.sequence >= first)
    answered = {one.tool_call_id for one in dropped if one.role == "tool"}
    return tuple(
        call.tool_call_id
        for call in tool_calls
        if _turn_number(call.turn_id) < first_turn or call.tool_call_id in answered
    )


def _turn_number(turn_id: str) -> int:
    return int(turn_id.removeprefix("turn-"))
