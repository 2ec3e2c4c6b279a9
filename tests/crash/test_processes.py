"""The processes that ship for tests: started, killed, started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from dex_agents import AgentSessionClient, AgentSessionFlow, InvalidInputError
from dex_agents.builtin_loop import AgentDefinition, create_builtin_agent_session_flow
from dex_agents.testing import (
    EngineProcess,
    ScriptedModelClient,
    ScriptedModelReply,
    WorkerProcess,
    find_free_loopback_ports,
)

pytestmark = pytest.mark.crash

_FACTORY = "tests.crash.test_processes:create_flow"


def create_flow() -> AgentSessionFlow:
    print("an application may print")
    model = ScriptedModelClient(lambda request: ScriptedModelReply(text=f"from process {os.getpid()}"))
    return create_builtin_agent_session_flow(AgentDefinition(name="agent", model=model), "ProcessTest")


async def test_a_session_goes_on_after_both_processes_were_killed_and_started_again(tmp_path: Path) -> None:
    async with (
        EngineProcess(tmp_path / "engine.db") as engine,
        WorkerProcess(_FACTORY, server_address=engine.server_address) as worker,
        AgentSessionClient.connect(create_flow(), server_address=engine.server_address) as sessions,
    ):
        address, first = engine.server_address, worker.pid
        await sessions.start_session("s", first_message="one")
        await sessions.wait_for_idle("s")
        await worker.kill()
        await engine.kill()
        assert not worker.is_running
        assert not engine.is_running
        await engine.start()
        await worker.start()
        assert engine.server_address == address
        await sessions.send_user_message("s", "two")
        await sessions.wait_for_idle("s")
        snapshot = await sessions.get_agent_snapshot("s")
        second = worker.pid

    said = [message.text for message in snapshot.messages if message.role == "assistant"]
    assert said == [f"from process {first}", f"from process {second}"]
    assert not worker.is_running
    assert not engine.is_running


async def test_a_port_that_the_system_chose_is_kept_by_a_restart(tmp_path: Path) -> None:
    async with EngineProcess(tmp_path / "engine.db", listen="127.0.0.1:0") as engine:
        address = engine.server_address
        assert address != "127.0.0.1:0"
        await engine.kill()
        await engine.start()
        assert engine.server_address == address


async def test_processes_that_are_asked_to_end_do_so_in_order(tmp_path: Path) -> None:
    async with (
        EngineProcess(tmp_path / "engine.db") as engine,
        WorkerProcess(_FACTORY, server_address=engine.server_address) as worker,
    ):
        assert await worker.stop() == 0
        assert await engine.stop() == 0
        assert "an application may print" in worker.log


async def test_a_worker_ends_when_the_process_that_started_it_does(tmp_path: Path) -> None:
    async with EngineProcess(tmp_path / "engine.db") as engine:
        reading, writing = os.pipe()
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dex_agents.testing.worker_main",
            "--server-address",
            engine.server_address,
            _FACTORY,
            stdin=reading,
            stdout=asyncio.subprocess.PIPE,
        )
        os.close(reading)
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
        os.close(writing)
        assert await worker.wait() == 0


async def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "engine.db").write_text("This is no database, and long enough to be looked at as if it were.")

    with pytest.raises(
        RuntimeError, match=r"^the engine ended with exit status 2 before it was ready\n(?s:.*)engine\.db"
    ):
        async with EngineProcess(tmp_path / "engine.db"):
            pass


async def test_a_worker_whose_factory_is_wrong_says_why(tmp_path: Path) -> None:
    missing = WorkerProcess("tests.crash.test_processes:missing", server_address="127.0.0.1:1")

    with pytest.raises(RuntimeError, match="has no function 'missing'"):
        async with missing:
            pass


async def test_a_process_that_is_not_ready_in_time_is_killed() -> None:
    (port,) = find_free_loopback_ports(1)
    worker = WorkerProcess(_FACTORY, server_address=f"127.0.0.1:{port}", start_timeout=0.01)

    with pytest.raises(RuntimeError, match=r"was not ready within 0\.01 s"):
        async with worker:
            pass
    assert not worker.is_running


async def test_a_process_that_runs_is_not_started_twice(tmp_path: Path) -> None:
    async with EngineProcess(tmp_path / "engine.db") as engine:
        with pytest.raises(RuntimeError, match="runs already, as process"):
            await engine.start()


async def test_a_process_that_ended_by_itself_is_noticed_and_can_be_killed(tmp_path: Path) -> None:
    async with EngineProcess(tmp_path / "engine.db") as engine:
        os.kill(engine.pid, signal.SIGTERM)
        assert await engine.stop() == 0
        assert not engine.is_running
        await engine.kill()


async def test_a_process_that_does_not_end_when_asked_is_reported(tmp_path: Path) -> None:
    async with EngineProcess(tmp_path / "engine.db") as engine:
        os.kill(engine.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match=r"^the engine has not ended within 0\.01 s$"):
            await engine.stop(timeout=0.01)
        assert engine.is_running


async def test_a_process_outside_its_context_says_so(tmp_path: Path) -> None:
    engine = EngineProcess(tmp_path / "engine.db")

    with pytest.raises(RuntimeError, match="enter it first"):
        await engine.start()
    with pytest.raises(RuntimeError, match="no address before its context is entered"):
        _ = engine.server_address
    with pytest.raises(RuntimeError, match="was not started"):
        _ = engine.pid
    assert engine.log == ""
    await engine.kill()


def test_a_bound_that_is_not_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^start_timeout: must be more than 0 seconds"):
        EngineProcess(tmp_path / "engine.db", start_timeout=0)
