"""What a summary covers, which chunks are read behind it, and the numbers of a policy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dex_agents import limits
from dex_agents.errors import InvalidInputError, RunnerContractError
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.session.state import TurnView
from dex_agents.session.transitions.context import add_model_usage, compact_context, covered_messages
from dex_agents.session.transitions.messages import number_messages
from dex_agents.session.transitions.turns import first_tool_call_number
from dex_agents.wire.messages import FrameworkMessage
from dex_agents.wire.sessions import AgentTurnState, SessionRecord
from dex_agents.wire.usage import AgentUsage, ModelUsage

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _view(**record: Any) -> TurnView:
    turn = AgentTurnState(
        number=2, started_at=NOW, first_sequence=5, tool_call_ids=("a", "b"), waiting_call_ids=("b",)
    )
    roles = ("user", "assistant", "user", "assistant", "user", "assistant", "tool", "assistant")
    messages = [FrameworkMessage(role, "{}", tool_call_id="a" if role == "tool" else None) for role in roles]
    return TurnView(
        record=SessionRecord(started_at=NOW, turn=turn, next_sequence=9, **record),
        turn=turn,
        messages=number_messages(messages, next_sequence=1, turn_id="turn-2", now=NOW),
        tool_calls=(),
        chunks=(1, 3, 5, 8),
    )


def test_a_summary_covers_whole_chunks_and_the_records_whose_results_it_holds() -> None:
    change = compact_context(_view(open_chunks=(3, 5, 8)), 7, "what was", NOW)
    record = change.record
    assert (record.covered_through, record.summary_revision) == (7, 1)
    assert (record.chunks, record.open_chunks) == ((8,), (8,))
    assert change.running_turn.tool_call_ids == ("b",)
    assert change.context_summary is not None
    assert (change.context_summary.text, change.context_summary.covered_through) == ("what was", 7)


def test_a_chunk_that_is_covered_in_part_is_still_read() -> None:
    assert compact_context(_view(), 6, "x", NOW).record.chunks == (5, 8)


@pytest.mark.parametrize("cut", [0, 8, 100])
def test_a_cut_that_leaves_nothing_on_one_side_is_refused(cut: int) -> None:
    with pytest.raises(RunnerContractError, match="choose_compaction_cut"):
        covered_messages(_view(), cut)


def test_a_summary_is_stored_as_text_that_everybody_can_take() -> None:
    long = "\ud800" + "é" * limits.MAX_CONTEXT_SUMMARY_BYTES
    summary = compact_context(_view(), 4, long, NOW).context_summary
    assert summary is not None
    assert summary.text.startswith("\ufffdé")
    assert len(summary.text.encode()) <= limits.MAX_CONTEXT_SUMMARY_BYTES


def test_behind_a_summary_every_new_tool_call_id_has_a_number() -> None:
    assert first_tool_call_number(_view()) == 1
    assert first_tool_call_number(_view(covered_through=4)) == 9


def test_usage_is_added_by_model() -> None:
    one, two = AgentUsage(model_calls=1, input_tokens=5), AgentUsage(model_calls=1, input_tokens=7)
    before = (ModelUsage("a", one),)
    added = add_model_usage(before, [ModelUsage("b", one), ModelUsage("a", two), ModelUsage(None, one)])
    assert added == (
        ModelUsage("a", AgentUsage(model_calls=2, input_tokens=12)),
        ModelUsage("b", one),
        ModelUsage(None, one),
    )


def test_the_defaults_of_a_policy_are_those_of_the_documentation() -> None:
    policy = CompactionPolicy(context_window_tokens=1_000)
    assert (policy.trigger_ratio, policy.retained_ratio, policy.retained_tokens) == (0.85, 0.3, 300)
    assert [policy.is_due(tokens) for tokens in (849, 850)] == [False, True]
    assert [policy.is_overflow(tokens) for tokens in (1_000, 1_001)] == [False, True]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("context_window_tokens", 0),
        ("retained_ratio", 0),
        ("retained_ratio", 1),
        ("trigger_ratio", 0.3),
        ("trigger_ratio", 1.01),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(field: str, value: float) -> None:
    fields: dict[str, Any] = {"context_window_tokens": 1_000, field: value}
    with pytest.raises(InvalidInputError, match=field):
        CompactionPolicy(**fields)
