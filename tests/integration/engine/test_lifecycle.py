from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import stat
import sys
from pathlib import Path

import dex
import grpc
import pytest

from dex_agents.engine import LocalEngine
from dex_agents.errors import EngineAddressError, EngineDatabaseError, EngineError, EngineInUseError
from tests.integration.engine.room import AsyncStep, open_room


class Empty(dex.Flow[None]):
    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].empty()


flow = Empty()


async def test_the_default_address_is_a_private_socket_that_goes_away(tmp_path: Path) -> None:
    async with LocalEngine(tmp_path / "engine.db") as engine:
        path = Path(engine.server_address.removeprefix("unix:"))
        assert path.is_socket()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()
    with pytest.raises(EngineError, match="not running"):
        _ = engine.server_address


async def test_an_engine_can_be_started_again(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "engine.db", listen="127.0.0.1:0", synchronous="normal")
    for _ in range(3):
        await engine.start()
        with pytest.raises(EngineError, match="running already"):
            await engine.start()
        assert engine.server_address.startswith("127.0.0.1:")
        await engine.stop()
        await engine.stop()
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["engine.db"]


async def test_a_start_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "engine.db")
    for yields in range(5):
        starting = asyncio.create_task(engine.start())
        for _ in range(yields):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await engine.stop()
    async with LocalEngine(tmp_path / "engine.db"):
        pass


async def test_a_second_engine_on_the_same_file_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        (tmp_path / "link.db").symlink_to(room.database)
        for path in (room.database, tmp_path / "link.db"):
            with pytest.raises(EngineInUseError) as caught:
                await LocalEngine(path).start()
            assert caught.value.pid == os.getpid()
        await room.client.start_flow(flow, "f", None)


async def test_a_taken_address_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineAddressError, match="in use"):
            await LocalEngine(tmp_path / "engine.db", listen=address).start()
    async with LocalEngine(tmp_path / "engine.db", listen=f"unix:{tmp_path}/s") as engine:
        with pytest.raises(EngineAddressError, match="another process listens"):
            await LocalEngine(tmp_path / "other.db", listen=engine.server_address).start()
    # The refused engines gave everything back.
    async with LocalEngine(tmp_path / "other.db"):
        pass


async def test_two_engines_do_not_share_a_port(tmp_path: Path) -> None:
    async with LocalEngine(tmp_path / "a.db", listen="127.0.0.1:0") as engine:
        with pytest.raises(EngineAddressError, match="in use"):
            await LocalEngine(tmp_path / "b.db", listen=engine.server_address).start()


async def test_the_socket_of_a_dead_engine_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with LocalEngine(tmp_path / "engine.db", listen=f"unix:{path}") as engine:
        assert engine.server_address == f"unix:{path}"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "HOST:PORT"),
        ("localhost", "HOST:PORT"),
        (":80", "HOST:PORT"),
        ("localhost:http", "HOST:PORT"),
        ("localhost:70000", "HOST:PORT"),
        ("unix:relative.sock", "must be absolute"),
        ("unix:/nowhere/at/all.sock", "does not exist"),
        ("unix:/" + "x" * 200, "longer than 103 bytes"),
    ],
)
async def test_a_malformed_address_is_refused(tmp_path: Path, address: str, problem: str) -> None:
    with pytest.raises(EngineAddressError, match=problem):
        await LocalEngine(tmp_path / "engine.db", listen=address).start()


async def test_a_file_where_the_socket_should_be_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("keep me")
    with pytest.raises(EngineAddressError, match="is not a socket"):
        await LocalEngine(tmp_path / "engine.db", listen=f"unix:{path}").start()
    assert path.read_text() == "keep me"


async def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    path.write_bytes(b"PK\x03\x04" * 500)
    with pytest.raises(EngineDatabaseError, match="not a database"):
        await LocalEngine(path).start()


class Work(AsyncStep[None]):
    async def execute(self, context: dex.AsyncContext, input: None) -> dex.StepDecision:
        return dex.graceful_complete()


class Active(dex.Flow[None]):
    def get_steps(self) -> dex.StepList[None]:
        return dex.StepList[None].start_step(Work())


def damage_runs(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE run SET config = x'ffff'")


async def test_damaged_state_that_is_needed_at_the_start_is_reported_then(tmp_path: Path) -> None:
    active = Active()
    async with open_room(tmp_path, active, workers=0) as room:
        await room.client.start_flow(active, "f", None)
    damage_runs(room.database)
    with pytest.raises(EngineDatabaseError, match="damaged"):
        await LocalEngine(room.database).start()


async def test_damaged_state_of_an_idle_run_is_reported_when_it_is_needed(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        await room.client.start_flow(flow, "f", None)
    damage_runs(room.database)
    async with open_room(tmp_path, flow, workers=0) as room:
        with pytest.raises(dex.DexServiceError, match="the database is damaged") as caught:
            await room.client.stop_flow("f")
        assert caught.value.code is grpc.StatusCode.DATA_LOSS
        await room.client.start_flow(flow, "other", None)


async def test_an_engine_that_cannot_write_stops_instead_of_going_on_from_memory(tmp_path: Path) -> None:
    room_ = open_room(tmp_path, flow, workers=0)
    room = await room_.__aenter__()
    await room.client.start_flow(flow, "kept", None)
    connection = sqlite3.connect(room.database, timeout=10)
    connection.execute("DROP TABLE journal")
    connection.close()
    with pytest.raises(dex.DexServiceError) as caught:
        await room.client.start_flow(flow, "lost", None)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(EngineError, match="could not go on"):
        await room_.__aexit__(None, None, None)


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'full' or 'normal'"):
        LocalEngine(tmp_path / "engine.db", synchronous="off")  # type: ignore[arg-type]


_WITHOUT_UVLOOP = """
import sys
sys.modules["uvloop"] = None
from dex_agents.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


async def run_command(*arguments: str, has_uvloop: bool = True) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *(("-m", "dex_agents") if has_uvloop else ("-c", _WITHOUT_UVLOOP)),
        "engine",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_says_where_it_listens_and_ends_with_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = await run_command("--data", str(tmp_path / "engine.db"), "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("dex-agents engine: listening on 127.0.0.1:")
    process.send_signal(number)
    output, _ = await process.communicate()
    assert (process.returncode, output) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which libraries a process has loaded")
@pytest.mark.parametrize("has_uvloop", [True, False])
async def test_the_command_runs_on_uvloop_where_it_is_installed(tmp_path: Path, has_uvloop: bool) -> None:
    arguments = ("--data", str(tmp_path / "engine.db"), "--listen", "127.0.0.1:0")
    process = await run_command(*arguments, has_uvloop=has_uvloop)
    assert process.stdout is not None
    assert b"listening on" in await process.stdout.readline()
    loaded = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    assert process.returncode == 0
    assert ("uvloop" in loaded) is has_uvloop


async def test_the_command_refuses_a_used_database_without_a_traceback(tmp_path: Path) -> None:
    async with LocalEngine(tmp_path / "engine.db"):
        process = await run_command("--data", str(tmp_path / "engine.db"), "--listen", "127.0.0.1:0")
        output, errors = await process.communicate()
    assert (process.returncode, output) == (2, b"")
    assert f"in use by the engine process {os.getpid()}" in errors.decode()
    assert "Traceback" not in errors.decode()


@pytest.mark.parametrize(
    "arguments",
    [("--listen", "127.0.0.1:0"), ("--data", "x.db"), ("--data", "/missing/x.db", "--listen", "127.0.0.1:0")],
)
async def test_the_command_refuses_bad_usage(arguments: tuple[str, ...]) -> None:
    process = await run_command(*arguments)
    output, errors = await process.communicate()
    assert (process.returncode, output) == (2, b"")
    assert errors
    assert b"Traceback" not in errors
