"""Options of the Steps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dex_agents import session
from dex_agents.builtin_loop import AgentDefinition, BuiltinLoopAgentRunner, ScriptedModelClient
from dex_agents.builtin_loop import ScriptedModelReply as Reply
from dex_agents.errors import InvalidInputError
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.wire.interrupts import AgentInterrupt, InterruptKind
from dex_agents.wire.sessions import AgentTurnState, SessionRecord
from dex_agents.wire.step_inputs import ToolStepInput
from dex_agents.wire.tool_calls import ToolEffect

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_TURN = AgentTurnState(number=1, started_at=_NOW, first_sequence=1)
_RUNNING = SessionRecord(started_at=_NOW, turn=_TURN)


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


_WAITED_FOR: tuple[InterruptKind, ...] = ("approval", "question", "wait")


def _interrupt(kind: InterruptKind) -> AgentInterrupt:
    return AgentInterrupt(f"{kind}:c", kind, "turn-1", "c", "tool", ToolEffect.READ, "{}", _NOW)


def test_the_inbox_is_loaded_alone_since_the_sdk_may_swap_what_two_channels_hold() -> None:
    graph, step = _flow().graph, ToolStepInput(1, 1, "c")
    movements = (
        graph.await_user_message(),
        graph.close_session(),
        graph.call_model(_RUNNING),
        graph.cancel_turn(_TURN),
        graph.cancel_turn(_TURN, is_grace_over=True),
        graph.run_tool(step, ToolEffect.READ),
        graph.reconcile_tool_call(step, "lost"),
        graph.await_earlier_write(step),
        graph.poll_tool_task(step, _NOW),
        *(graph.await_interrupt(step, _interrupt(kind)) for kind in _WAITED_FOR),
    )
    for movement in movements:
        options = movement.options
        assert options is not None
        names = [channel.name for channel in options.execute_load_channels]
        others = (*options.execute_load_channel_maps, *options.execute_load_channel_map_instances)
        assert names in ([], ["inbox"])
        assert not names or not others, movement
        assert not options.wait_for_load_channel_maps
        assert [channel.name for channel in options.wait_for_load_channels] in ([], ["inbox"])


def test_no_rpc_loads_more_than_one_channel() -> None:
    source = "\n".join(path.read_text() for path in Path(session.__path__[0]).glob("*_rpcs.py"))
    assert set(re.findall(r"load_channels=\(([^)]*)\)", source)) == {"INBOX,", "IDLE,"}
    assert not re.findall(r"load_channel_maps|load_channel_map_instances", source)
