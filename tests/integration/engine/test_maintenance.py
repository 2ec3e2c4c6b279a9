"""The engine's database from outside: backup, check, stats, and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
from pathlib import Path

import dex
import grpc
import pytest

from dex_agents.engine import LocalEngine, backup_database, check_database, read_engine_report
from dex_agents.errors import EngineDatabaseError, EngineUnreachableError
from tests.integration.engine.room import BOUND, AsyncStep, Room, open_room

inbox = dex.Channel("inbox", str)
document = dex.Attribute("document", str)
WAIT = dex.WaitForStepCompletionOptions(request_timeout=BOUND)


class Listen(AsyncStep[str]):
    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(inbox.for_one())

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        (text,) = inbox.results(context)
        document.set(context, text)
        return dex.go_to(Listen, text) if text != "end" else dex.graceful_complete(input[:5])


class Conversation(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Listen())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(inbox, document)

    @dex.rpc
    def say(self, context: dex.Context, text: str) -> None:
        inbox.publish(context, text)


async def hear(room: Room, flow: Conversation, text: str, number: int) -> None:
    await room.call(flow.say, "f", text)
    completed = dex.StepExecutionId("Listen", number)
    await room.client.wait_for_step_completion("f", completed, WAIT)


async def run_command(*arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents", "engine", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND.total_seconds()):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.requirement("engine-backup")
async def test_a_backup_of_a_running_engine_goes_on_where_the_engine_was(tmp_path: Path) -> None:
    flow = Conversation()
    copy = tmp_path / "copy"
    copy.mkdir()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "")
        await hear(room, flow, "x" * 40_000, 1)
        await asyncio.to_thread(backup_database, room.database, copy / "engine.db")
        await hear(room, flow, "only in the original", 2)
    assert [file.name for file in copy.iterdir()] == ["engine.db"]
    report = check_database(copy / "engine.db")
    assert report.problems == ()
    assert report.runs or report.journal_units
    async with open_room(copy, flow) as room:
        await room.call(flow.say, "f", "end")
        assert (await room.client.wait_for_flow("f", BOUND)).single_output(str) == "xxxxx"


async def test_a_backup_replaces_nothing_and_takes_no_other_file(tmp_path: Path) -> None:
    async with LocalEngine(tmp_path / "engine.db"):
        pass
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(EngineDatabaseError, match="a backup replaces nothing"):
        backup_database(tmp_path / "engine.db", tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "precious"
    with pytest.raises(EngineDatabaseError, match="not a database"):
        backup_database(tmp_path / "taken", tmp_path / "copy")
    with pytest.raises(EngineDatabaseError, match="no such file"):
        backup_database(tmp_path / "missing", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "copy.partial").exists()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE run SET config = x'ffff'", "run 1 cannot be read: DecodeError"),
        ("DELETE FROM blob", "is missing"),
        ("INSERT INTO journal VALUES (99, x'c1')", "journal row 99 cannot be read"),
        ("UPDATE step_progress SET timers = x'c1'", "run 1 cannot be read"),
    ],
)
async def test_a_check_names_what_is_wrong(tmp_path: Path, damage: str, problem: str) -> None:
    flow = Conversation()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "")
        await hear(room, flow, "x" * 40_000, 1)
        assert check_database(room.database).problems == ()
    assert check_database(room.database).problems == ()
    with contextlib.closing(sqlite3.connect(room.database, isolation_level=None)) as connection:
        connection.execute(damage)
    problems = check_database(room.database).problems
    assert problems
    assert all(problem in each for each in problems), problems


async def test_a_check_reports_pages_that_are_torn(tmp_path: Path) -> None:
    flow = Conversation()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "")
        await hear(room, flow, "x" * 40_000, 1)
    content = bytearray(room.database.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xa5" * (4096 * 3)
    room.database.write_bytes(content)
    code, output, errors = await run_command("check", str(room.database))
    assert code == 1
    assert json.loads(output)["problems"]
    assert "problems" in errors


@pytest.mark.requirement("engine-report")
async def test_an_engine_reports_how_it_fares(tmp_path: Path) -> None:
    flow = Conversation()
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "f", "")
        await hear(room, flow, "hello", 1)
        report = await read_engine_report(room.address)
        assert (report.open_runs, report.closed_runs, report.waiting) == (1, 0, {"Listen": 1})
        assert report.steps >= 2
        assert report.rpcs == 1
        assert report.commits > 0
        assert report.commit_ms_p99 >= report.commit_ms_p50 > 0
        assert (report.queued, sum(report.running.values()), report.instants) == ({}, 0, 0)
        code, output, _ = await run_command("stats", room.address, "--seconds", "0")
        assert code == 0
        assert json.loads(output)["waiting"] == {"Listen": 1}
    with pytest.raises(EngineUnreachableError):
        await read_engine_report(room.address)


@pytest.mark.requirement("engine-private")
async def test_a_token_is_asked_for_by_every_method(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    async with open_room(tmp_path, Conversation(), workers=0, token="s3cret") as room:
        with pytest.raises(dex.DexServiceError) as caught:
            await room.client.health_check()
        assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(EngineUnreachableError, match="bearer token is missing or wrong"):
            await read_engine_report(room.address, "wrong")
        assert (await read_engine_report(room.address, "s3cret")).open_runs == 0
        code, _, _ = await run_command("stats", room.address, "--token-file", str(secret))
        assert code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ((), 2, "the following arguments are required: --data, --listen"),
        (("--data", "x.db", "--listen", "nowhere"), 2, "an address is HOST:PORT or unix:/PATH"),
        (("--data", "x.db", "--listen", "127.0.0.1:0", "--retention-days", "0"), 2, "retention must be"),
        (("--data", "x.db", "--listen", "127.0.0.1:0", "--token-file", "missing"), 2, "No such file"),
        (("check", "missing"), 2, "there is no such file"),
        (("backup", "missing", "copy"), 2, "there is no such file"),
        (("stats", "unix:/nowhere.sock"), 2, "no engine answers"),
    ],
)
async def test_a_command_that_cannot_be_done_says_why(
    arguments: tuple[str, ...], code: int, problem: str
) -> None:
    found, output, errors = await run_command(*arguments)
    assert (found, output) == (code, "")
    assert problem in errors
    assert "Traceback" not in errors


async def test_logs_are_json_if_that_is_asked_for(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents", "engine", "--log-format", "json"),
        *("--data", str(tmp_path / "engine.db"), "--listen", f"unix:{tmp_path}/engine.sock"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(BOUND.total_seconds()):
        await process.stdout.readline()
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/engine.sock")
        writer.write(b"not HTTP/2\r\n\r\n")
        await reader.read()
        writer.close()
        process.terminate()
        _, errors = await process.communicate()
    entries = [json.loads(line) for line in errors.decode().splitlines()]
    assert [(entry["level"], entry["message"]) for entry in entries] == [
        ("warning", "closing a connection: the peer does not speak HTTP/2")
    ]
    assert process.returncode == 0
