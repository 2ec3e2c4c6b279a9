"""What a pass of retention deletes, and when there is one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.errors import InvalidInputError
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.transitions.messages import number_messages
from dex_agents.session.transitions.retention import RetentionRules, is_retention_due, plan_retention
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, MessageChunk
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import AgentToolCall, ToolEffect

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _turn(number: int) -> tuple[AgentMessage, ...]:
    """Return the four messages of a turn with one tool call."""
    first = 4 * (number - 1) + 1
    roles = ("user", "assistant", "tool", "assistant")
    messages = [
        FrameworkMessage(role, "{}", tool_call_id=f"c{number}" if role == "tool" else None) for role in roles
    ]
    return number_messages(
        messages, next_sequence=first, turn_id=f"turn-{number}", now=NOW, message_id=f"m{number}"
    )


def _call(number: int) -> AgentToolCall:
    return AgentToolCall(
        tool_call_id=f"c{number}",
        model_call_id=f"c{number}",
        turn_id=f"turn-{number}",
        response_index=1,
        tool_name="look",
        arguments="{}",
        effect=ToolEffect.READ,
        status="succeeded",
        requested_at=NOW,
    )


def _session(turns: int, **fields: Any) -> tuple[SessionRecord, list[MessageChunk], list[AgentToolCall]]:
    record = SessionRecord(started_at=NOW, turn_count=turns, next_sequence=4 * turns + 1, **fields)
    chunks = [MessageChunk(_turn(number)) for number in range(1, turns + 1)]
    return record, chunks, [_call(number) for number in range(1, turns + 1)]


def test_only_what_a_summary_covers_is_deleted() -> None:
    record, chunks, calls = _session(5, covered_through=8, chunks=(9, 13, 17), summary_revision=1)
    plan = plan_retention(record, RetentionRules(keep_messages=4), chunks, calls)
    assert (plan.deletes, plan.writes) == ((1, 5), ())
    assert plan.tool_call_ids == ("c1", "c2")
    assert set(plan.message_ids) == {"m1", "m2"}
    assert (plan.record.dropped_messages, plan.record.covered_through) == (8, 8)
    # Everything that is left is read, so no chunk needs a name.
    assert plan.record.chunks == ()


def test_a_chunk_that_goes_in_part_is_written_anew_under_its_first_message() -> None:
    record, chunks, calls = _session(5, covered_through=16, chunks=(17,), summary_revision=1)
    plan = plan_retention(record, RetentionRules(keep_messages=10), chunks, calls)
    assert plan.deletes == (1, 5, 9)
    assert [chunk.messages[0].sequence for chunk in plan.writes] == [11]
    assert plan.tool_call_ids == ("c1", "c2")
    assert (plan.record.dropped_messages, plan.record.chunks) == (10, (17,))


def test_uncovered_messages_go_by_whole_turns_and_only_when_that_was_asked_for() -> None:
    record, chunks, calls = _session(5)
    assert plan_retention(record, RetentionRules(keep_messages=6), chunks, calls).deletes == ()
    plan = plan_retention(record, RetentionRules(keep_messages=6, drop_uncovered=True), chunks, calls)
    assert plan.deletes == (1, 5, 9)
    assert plan.record.dropped_messages == plan.record.covered_through == 12


def test_turns_are_kept_whole_and_of_two_rules_the_kinder_one_counts() -> None:
    record, chunks, calls = _session(5)
    two_turns = RetentionRules(keep_turns=2, drop_uncovered=True)
    both = RetentionRules(keep_turns=2, keep_messages=16, drop_uncovered=True)
    assert plan_retention(record, two_turns, chunks, calls).record.dropped_messages == 12
    assert plan_retention(record, both, chunks, calls).record.dropped_messages == 4


@pytest.mark.parametrize(
    ("rules", "fields", "due"),
    [
        (RetentionRules(), {"covered_through": 15}, False),
        (RetentionRules(keep_messages=4), {}, False),
        (RetentionRules(keep_messages=4), {"covered_through": 15}, True),
        (RetentionRules(keep_messages=4), {"covered_through": 15, "dropped_messages": 15}, False),
        (RetentionRules(keep_messages=16), {"covered_through": 15}, True),
        (RetentionRules(keep_messages=18), {"covered_through": 15}, False),
        (RetentionRules(keep_messages=4, drop_uncovered=True), {}, True),
        (RetentionRules(keep_turns=5, drop_uncovered=True), {}, False),
        (RetentionRules(keep_turns=4, drop_uncovered=True), {}, True),
        (RetentionRules(keep_turns=4, drop_uncovered=True), {"retention_turn": 5}, False),
    ],
)
def test_a_pass_waits_until_enough_can_go(rules: RetentionRules, fields: dict[str, int], due: bool) -> None:
    record, _, _ = _session(5, **fields)
    assert is_retention_due(record, rules) is due


@given(
    turns=st.integers(1, 12),
    covered=st.integers(0, 47),
    keep_messages=st.none() | st.integers(1, 50),
    keep_turns=st.none() | st.integers(1, 12),
    drop_uncovered=st.booleans(),
)
def test_what_stays_is_an_end_of_the_transcript_with_all_its_records(
    turns: int,
    covered: int,
    keep_messages: int | None,
    keep_turns: int | None,
    drop_uncovered: bool,
) -> None:
    covered = min(covered, 4 * turns - 1)
    record, chunks, calls = _session(turns, covered_through=covered)
    rules = RetentionRules(keep_messages=keep_messages, keep_turns=keep_turns, drop_uncovered=drop_uncovered)
    if not is_retention_due(record, rules):
        return
    plan = plan_retention(record, rules, chunks, calls)
    stored = {chunk.messages[0].sequence: chunk for chunk in chunks}
    for key in plan.deletes:
        del stored[key]
    stored.update((chunk.messages[0].sequence, chunk) for chunk in plan.writes)
    left = [message for key in sorted(stored) for message in stored[key].messages]
    dropped = plan.record.dropped_messages
    assert [message.sequence for message in left] == list(range(dropped + 1, record.next_sequence))
    assert left
    assert drop_uncovered or dropped <= covered
    assert dropped <= record.next_sequence - 1 - (keep_messages or 1)
    if keep_turns is not None:
        kept = {message.turn_id for message in left}
        assert {f"turn-{n}" for n in range(max(1, turns - keep_turns + 1), turns + 1)} <= kept
    kept_calls = {call.tool_call_id for call in calls}.difference(plan.tool_call_ids)
    assert kept_calls == {message.tool_call_id for message in left if message.tool_call_id is not None}
    read = [message for message in left if message.sequence > plan.record.covered_through]
    if dropped > covered:
        assert read[0].role == "user"
    assert plan_retention(plan.record, rules, [stored[key] for key in sorted(stored)], calls).deletes == ()
    assert msgspec.structs.replace(plan.record, dropped_messages=0) != plan.record


@pytest.mark.parametrize(
    "fields", [{"keep_messages": 0}, {"keep_turns": -1}, {"drop_uncovered": True}], ids=str
)
def test_a_rule_that_means_nothing_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(fields))):
        AgentSessionOptions(**fields)
