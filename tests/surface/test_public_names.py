"""The doors of the package against the committed list of what they offer."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

LISTED = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").split()
DOORS = sorted({name.rpartition(".")[0] for name in LISTED})


@pytest.mark.parametrize("door", DOORS)
def test_a_door_offers_what_is_listed_and_nothing_else(door: str) -> None:
    module = importlib.import_module(door)
    offered = [f"{door}.{name}" for name in module.__all__]
    assert sorted(offered) == [name for name in sorted(LISTED) if name.rpartition(".")[0] == door]
    assert all(hasattr(module, name) for name in module.__all__)


def test_each_name_is_listed_once_and_in_order() -> None:
    assert sorted(set(LISTED)) == LISTED
