"""The doors of the package against the committed list of what they offer."""

from __future__ import annotations

import importlib
import subprocess
import sys
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


def test_the_package_loads_nothing_heavy_before_a_name_is_asked_for() -> None:
    program = """
import sys
import dex_agents
assert dex_agents.__version__
assert "AgentWorker" not in vars(dex_agents)
loaded = {"dex", "grpc", "msgspec"} & set(sys.modules)
assert not loaded, loaded
from dex_agents import AgentWorker, errors, texts
assert "dex" in sys.modules
assert "AgentWorker" in dir(dex_agents)
try:
    dex_agents.nothing_of_this_name
except AttributeError as error:
    assert "nothing_of_this_name" in str(error)
else:
    raise AssertionError("a name that is not there was found")
"""
    environment = {"PYTHONPATH": str(Path(importlib.import_module("dex_agents").__file__ or "").parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
