"""The note on the plan against its pinned spellings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dex_agents import build_plan_note
from dex_agents.wire.plans import AgentPlan, InteractionMode


class Given(msgspec.Struct):
    plan: AgentPlan | None
    interaction_mode: InteractionMode


class Case(msgspec.Struct):
    name: str
    given: Given
    expect: str | None


class Vectors(msgspec.Struct):
    about: str
    cases: list[Case]


VECTORS = msgspec.json.decode(
    (Path(__file__).parents[2] / "conformance" / "plan_note.json").read_bytes(), type=Vectors
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in VECTORS.cases])
def test_a_note_is_spelled_as_pinned(case: Case) -> None:
    assert build_plan_note(case.given.plan, case.given.interaction_mode) == case.expect
