"""Options of the Steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dex_agents.builtin_loop import AgentDefinition, BuiltinLoopAgentRunner, ScriptedModelClient
from dex_agents.builtin_loop import ScriptedModelReply as Reply
from dex_agents.errors import InvalidInputError
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.wire.sessions import AgentTurnState, SessionRecord
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import ToolEffect

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_RUNNING = SessionRecord(started_at=_NOW, turn=AgentTurnState(number=1, started_at=_NOW, first_sequence=1))


def _flow(flow_type: str = "Desk") -> AgentSessionFlow:
    model = ScriptedModelClient(lambda _: Reply(text="hi"))
    return AgentSessionFlow(BuiltinLoopAgentRunner(AgentDefinition(name="desk", model=model)), flow_type)


def test_an_attempt_that_was_lost_with_the_machine_is_repeated_however_long_that_was_off() -> None:
    graph = _flow().graph
    for movement in (
        graph.call_model(_RUNNING),
        graph.run_tool(ToolStepInput(1, 1, "c"), ToolEffect.IDEMPOTENT_WRITE),
    ):
        assert movement.options is not None
        assert movement.options.execute_retry is not None
        assert (movement.options.execute_retry.total_duration or timedelta()) > timedelta(days=365)


@pytest.mark.parametrize("flow_type", ["", " ", 'a"b', "a/b", "x" * 257])
def test_a_flow_type_that_can_not_be_searched_for_is_refused(flow_type: str) -> None:
    with pytest.raises(InvalidInputError, match="flow_type"):
        _flow(flow_type)
