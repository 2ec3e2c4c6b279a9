"""A kill is counted where it happened, and one that did not happen is not."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dex_agents import AgentSessionClient
from dex_agents.testing import WorkerProcess
from tests.crash.agent import build_message, create_flow, gate_at
from tests.crash.engine.faults import FaultyEngine
from tests.crash.killer import KillCounts, Killer

pytestmark = pytest.mark.crash


async def test_an_engine_is_killed_at_the_moment_that_was_chosen_and_started_again(tmp_path: Path) -> None:
    async with FaultyEngine(tmp_path / "engine.db") as engine:
        killer = Killer(engine, ())
        first = engine.pid
        killing = asyncio.create_task(killer.kill_engine_at("after a commit", 1, lambda: False))
        flow = create_flow(str(tmp_path))
        async with AgentSessionClient.connect(flow, server_address=engine.server_address) as sessions:
            await sessions.start_session("s")
        await killing
        assert engine.is_running
        assert engine.pid != first
    assert killer.counts == KillCounts(engines=1, in_commits=killer.counts.in_commits)
    assert killer.counts.in_commits == {"after a commit": 1}


async def test_a_kill_whose_moment_does_not_come_is_none(tmp_path: Path) -> None:
    async with FaultyEngine(tmp_path / "engine.db") as engine:
        killer = Killer(engine, ())
        first = engine.pid
        await killer.kill_engine_at("after a checkpoint", 1, lambda: True)
        await killer.kill_worker_at("after look_up", gate_at(tmp_path, "after look_up"), 0, lambda: True)
        assert engine.is_running
        assert engine.pid == first
    assert killer.counts == KillCounts(not_fired=2)
    assert gate_at(tmp_path, "after look_up").is_open


async def test_a_worker_is_killed_at_its_gate_and_the_next_one_passes(tmp_path: Path) -> None:
    gate = gate_at(tmp_path, "leave RunModel")
    async with (
        FaultyEngine(tmp_path / "engine.db") as engine,
        WorkerProcess(
            "tests.crash.agent:create_flow",
            server_address=engine.server_address,
            arguments=(str(tmp_path), "leave RunModel"),
        ) as worker,
        AgentSessionClient.connect(
            create_flow(str(tmp_path)), server_address=engine.server_address
        ) as sessions,
    ):
        killer = Killer(engine, (worker,))
        first = worker.pid
        killing = asyncio.create_task(killer.kill_worker_at("leave RunModel", gate, 0, lambda: False))
        await sessions.start_session("s", first_message=build_message("one"))
        await killing
        await sessions.wait_for_idle("s")
        assert gate.arrivals == (first, worker.pid)
    assert killer.counts == KillCounts(workers=1, at_gates=killer.counts.at_gates)
    assert killer.counts.at_gates == {"leave RunModel": 1}


async def test_a_process_that_ended_by_itself_is_not_hidden_by_a_kill(tmp_path: Path) -> None:
    async with FaultyEngine(tmp_path / "engine.db") as engine:
        killer = Killer(engine, ())
        os.kill(engine.pid, signal.SIGTERM)
        await engine.wait()
        with pytest.raises(RuntimeError, match="ended by itself"):
            await killer.kill(engine)
        with pytest.raises(RuntimeError, match="ended by itself"):
            await killer.kill_engine_at("before a commit", 1, lambda: False)
    assert killer.counts == KillCounts()
