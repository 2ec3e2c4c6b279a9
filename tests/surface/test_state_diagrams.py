"""The committed diagrams against the tables, and the tables against themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from dex_agents.builtin_loop import AgentDefinition, ScriptedModelClient, ScriptedModelReply
from dex_agents.builtin_loop import create_builtin_agent_session_flow as create_flow
from dex_agents.session.state_diagrams import render_session_flow_graph, render_state_diagrams
from dex_agents.session.step_routes import COMMAND_ROUTES, STEP_ROUTES, StepName
from dex_agents.session.transitions.interrupts import INTERRUPT_KINDS
from dex_agents.session.transitions.tool_call_moves import TOOL_CALL_MOVES, ToolCallMove
from dex_agents.session.transitions.turn_moves import SESSION_STATUSES, TURN_MOVES, TurnMove, TurnPhase
from dex_agents.wire.interrupts import InterruptKind
from dex_agents.wire.tool_calls import FINAL_TOOL_CALL_STATUSES, ToolCallStatus

_PAGE = Path(__file__).parents[2] / "docs" / "state-diagrams.md"


def test_the_committed_page_is_what_the_tables_draw() -> None:
    assert _PAGE.read_text(encoding="utf-8") == render_state_diagrams(), "run make graph"


def test_every_state_and_every_move_has_its_place() -> None:
    assert set(TURN_MOVES) == set(SESSION_STATUSES) == set(get_args(TurnPhase))
    assert {move for moves in TURN_MOVES.values() for move in moves} == set(get_args(TurnMove))
    assert set(TOOL_CALL_MOVES) == set(get_args(ToolCallStatus))
    assert {move for moves in TOOL_CALL_MOVES.values() for move in moves} == set(get_args(ToolCallMove))
    assert sorted(INTERRUPT_KINDS.values()) == sorted(get_args(InterruptKind))


@pytest.mark.parametrize("status", sorted(FINAL_TOOL_CALL_STATUSES))
def test_a_final_status_is_left_by_a_settlement_only(status: ToolCallStatus) -> None:
    expected = {"settle_succeeded", "settle_failed"} if status == "outcome_unknown" else set[str]()
    assert set(TOOL_CALL_MOVES[status]) == expected


def test_every_other_status_can_become_final() -> None:
    reached: set[str] = set(FINAL_TOOL_CALL_STATUSES)
    for _ in TOOL_CALL_MOVES:
        reached |= {status for status, moves in TOOL_CALL_MOVES.items() if reached & set(moves.values())}
    assert reached == set(TOOL_CALL_MOVES)


def test_the_routes_name_the_steps_of_the_flow_and_every_step_can_be_reached() -> None:
    definition = AgentDefinition(name="a", model=ScriptedModelClient(lambda _: ScriptedModelReply(text="b")))
    registered = {type(one.step).__name__ for one in create_flow(definition, "Desk").get_steps()}
    assert set(STEP_ROUTES) == registered == set(get_args(StepName))
    reached = {following for routes in STEP_ROUTES.values() for following in routes}
    assert registered - reached - set(COMMAND_ROUTES.values()) == {"StartSession"}


def test_the_flow_graph_is_a_flowchart_without_characters_that_end_a_label() -> None:
    first, *lines = render_session_flow_graph().splitlines()
    assert first == "flowchart TD"
    for line in lines:
        assert re.fullmatch(r' {4}\w+(\(\["\w+"\]\))?( -- "[a-zA-Z_, ]+")? --> \w+(\(\(\w+\)\))?', line), line
