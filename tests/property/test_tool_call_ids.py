"""Whatever IDs a model gives and whatever a summary covers: no ID of a call is used twice in a session."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.wire.tool_calls import ToolEffect

_model_ids = st.one_of(
    st.sampled_from(
        ["a", "a#2", "a#3", "a#7", "a#12#2", "", " ", "call", "call#4", "#5", "\ud800", "x" * 300]
    ),
    st.builds("a#{}".format, st.integers(0, 60)),
)


@given(
    responses=st.lists(st.tuples(st.booleans(), st.lists(_model_ids, min_size=1, max_size=6)), max_size=12)
)
def test_no_tool_call_id_is_used_twice(responses: list[tuple[bool, list[str]]]) -> None:
    given_so_far: list[str] = []
    known: set[str] = set()
    next_sequence, is_covered = 2, False
    for covers_everything, asked in responses:
        if covers_everything:
            known, is_covered = set[str](), True
        turn = AgentTurnContext(
            flow_id="s",
            turn_id="turn-1",
            attempt=1,
            messages=(),
            framework_run_state=None,
            tool_calls=(),
            events=cast("Any", None),
            tool_policies={},
            default_tool_effect=ToolEffect.READ,
            used_tool_call_ids=known,
            first_tool_call_number=next_sequence if is_covered else 1,
        )
        assigned = [turn.assign_tool_call_id(model_id) for model_id in asked]
        given_so_far += assigned
        known |= set(assigned)
        # The answer, and a result for each call.
        next_sequence += 1 + len(asked)
    assert len(set(given_so_far)) == len(given_so_far)
    assert all(one.isprintable() and 0 < len(one) <= 256 for one in given_so_far)
