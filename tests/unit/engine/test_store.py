from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import Table, decode_operations, encode_operations
from dex_agents.engine.machine import (
    apply_attempt_failure,
    apply_attempt_started,
    apply_wait_for_result,
    start_run,
)
from dex_agents.engine.retries import AttemptFailure
from dex_agents.engine.state import Run
from dex_agents.engine.store.database import connect, resolve_path
from dex_agents.engine.store.reader import StoreReader
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import Blob
from dex_agents.engine.writes import apply_attribute_writes, apply_publications
from dex_agents.errors import EngineDatabaseError
from tests.unit.engine.building import (
    NOW,
    channel,
    message,
    new_run,
    new_unit,
    only,
    text,
    timer,
    wait,
    write,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return resolve_path(tmp_path / "engine.db")


@pytest.fixture
def writer(path: str) -> Iterator[StoreWriter]:
    writer = StoreWriter(path, "normal")
    yield writer
    writer.close()


def append(writer: StoreWriter, *units: Unit) -> None:
    first = writer.last_sequence + 1
    writer.append(
        [(first + number, unit.operations) for number, unit in enumerate(units)],
        [blob for unit in units for blob in unit.blobs],
    )


def build_run_unit(run: Run) -> Unit:
    unit = new_unit()
    unit.put_run(run)
    return unit


def count(path: str, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        rows: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return rows
    finally:
        connection.close()


def test_operations_survive_their_journal_row() -> None:
    unit = new_unit()
    unit.put(Table.ATTRIBUTE, (7, "key"), b"\x00\xff")
    unit.put(Table.INDEX_VALUE, (7, "key", 0), "key", 1.5, None)
    unit.delete(Table.STEP, (7, 1))
    assert decode_operations(encode_operations(unit.operations)) == unit.operations


def test_an_appended_unit_is_in_the_journal_until_it_is_folded(writer: StoreWriter, path: str) -> None:
    append(writer, build_run_unit(new_run()))
    assert (count(path, "journal"), count(path, "run")) == (1, 0)
    assert writer.fold().sequence == 1
    assert (count(path, "journal"), count(path, "run")) == (0, 1)


def test_the_journal_of_a_killed_engine_is_folded_at_the_next_start(path: str) -> None:
    writer = StoreWriter(path, "full")
    append(writer, build_run_unit(new_run()))
    writer.close()
    assert count(path, "run") == 0
    second = StoreWriter(path, "full")
    assert (second.last_sequence, second.backlog) == (1, 0)
    second.close()
    assert (count(path, "journal"), count(path, "run")) == (0, 1)


def test_sequences_go_on_after_the_journal_was_emptied(writer: StoreWriter, path: str) -> None:
    append(writer, build_run_unit(new_run()))
    writer.fold()
    writer.close()
    reopened = StoreWriter(path, "normal")
    assert reopened.last_sequence == 1
    reopened.close()


def test_only_the_last_operation_on_a_row_counts(writer: StoreWriter, path: str) -> None:
    first, second, third = new_unit(), new_unit(), new_unit()
    first.put(Table.ATTRIBUTE, (1, "a"), b"1")
    first.put(Table.ATTRIBUTE, (1, "b"), b"1")
    second.put(Table.ATTRIBUTE, (1, "a"), b"2")
    third.delete(Table.ATTRIBUTE, (1, "b"))
    append(writer, first, second, third)
    writer.fold()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT key, value FROM attribute").fetchall() == [("a", b"2")]
    connection.close()


def test_a_large_group_is_committed_as_a_whole(writer: StoreWriter, path: str) -> None:
    units = [new_unit() for _ in range(200)]
    for number, unit in enumerate(units):
        unit.put(Table.ATTRIBUTE, (number, "a"), b"x")
    append(writer, *units)
    writer.fold()
    assert count(path, "attribute") == 200


def test_everything_about_an_open_run_is_read_back(writer: StoreWriter, path: str) -> None:
    run = new_run()
    run.timeout_at = NOW + 60
    request = pb.StartFlowRequest(
        start_step_type="Ask",
        step_input=text("input"),
        step_options=pb.StepOptions(execute_timeout_seconds=7),
    )
    unit = new_unit({"Status": pb.INDEX_TYPE_KEYWORD})
    start_run(run, request, unit, NOW)
    status = write("status", text("open"))
    status.index_config.CopyFrom(pb.IndexConfig(enable=True, type=pb.INDEX_TYPE_KEYWORD, index_key="Status"))
    secret = write("secret", text("hidden"))
    secret.is_hard_delete_on_null = True
    apply_attribute_writes(run, [status, secret, write("map/1", text("one"))], unit)
    apply_publications(run, [message("other", "a"), message("other", "b")], unit)
    result = pb.InvokeWaitForMethodResponse(waiting_condition=wait(timer(9), channel("inbox")))
    result.upsert_step_exe_locals.add(key="local").value.CopyFrom(text("kept"))
    apply_wait_for_result(run, only(run), result, unit, NOW)
    append(writer, unit)
    writer.fold()

    reader = StoreReader(path)
    (read,) = reader.load_runs([1])
    assert reader.load_active() == []
    assert reader.load_instants() == {(1, 0): NOW + 60, (1, 1): NOW + 9}
    reader.close()
    # The joined fragments are a cache and are built when somebody asks.
    run.plain_fragment = read.plain_fragment = None
    run.executions, expected = {}, only(run)
    read.executions, found = {}, only(read)
    assert read == run or [getattr(read, name) == getattr(run, name) for name in Run.__slots__]
    for name in ("number", "flow_id", "timeout_at", "plain", "maps", "indexes", "last_message", "channels"):
        assert getattr(read, name) == getattr(run, name), name
    assert (read.started_counts, read.last_execution) == ({"Ask": 1}, 1)
    for name in (
        "execution_id",
        "movement",
        "phase",
        "attempt",
        "condition",
        "timers",
        "step_locals",
        "results",
    ):
        assert getattr(found, name) == getattr(expected, name), name


def test_a_marked_attempt_is_read_back_as_marked(writer: StoreWriter, path: str) -> None:
    run, unit = new_run("Ask"), new_unit()
    unit.put_run(run)
    unit.put_execution(run, only(run))
    apply_attempt_failure(run, only(run), AttemptFailure("x", "y"), unit, NOW)
    apply_attempt_started(run, only(run), unit)
    append(writer, unit)
    writer.fold()
    reader = StoreReader(path)
    found = only(reader.load_active()[0])
    reader.close()
    assert (found.attempt, found.is_started, found.due_at) == (2, True, NOW + 1)


def test_a_blob_is_readable_as_soon_as_its_unit_is_committed(writer: StoreWriter, path: str) -> None:
    writer.append([(1, build_run_unit(new_run()).operations)], [Blob(1, "string", b"large")])
    reader = StoreReader(path)
    assert reader.load_blob("string", 1) == b"large"
    assert reader.load_blob("object", 1) is None
    assert reader.load_blob("string", 2) is None
    reader.close()


def test_a_stream_over_its_capacity_loses_its_oldest_messages(writer: StoreWriter, path: str) -> None:
    unit = new_unit()
    unit.put(Table.STREAM_GROUP, (1,), "Flow", "tokens", 250)
    for number in range(1, 11):
        unit.put(Table.STREAM_MESSAGE, (number,), 1, 1 + number % 2, NOW, "source", b"x" * 50, 50)
    append(writer, unit)
    assert writer.fold().trimmed == {1: 6}
    more = new_unit()
    more.put(Table.STREAM_MESSAGE, (11,), 1, 1, NOW, "source", b"x" * 100, 100)
    append(writer, more)
    assert writer.fold().trimmed == {1: 8}
    reader = StoreReader(path)
    assert [row.sequence for row in reader.load_stream_after(1, 0, 10)] == [8, 10, 11]
    assert [row.sequence for row in reader.load_stream_before(2, 99, 10)] == [9]
    reader.close()


def test_a_stream_position_is_not_used_again_after_everything_was_trimmed(
    writer: StoreWriter, path: str
) -> None:
    unit = new_unit()
    unit.put(Table.STREAM_GROUP, (1,), "Flow", "tokens", 10)
    unit.put(Table.STREAM_MESSAGE, (41,), 1, 1, NOW, "source", b"x" * 50, 50)
    append(writer, unit)
    writer.fold()
    reader = StoreReader(path)
    assert count(path, "stream_message") == 0
    assert reader.load_last_stream_message() == 41
    reader.close()


def test_deleted_secrets_leave_the_files(writer: StoreWriter, path: str) -> None:
    unit = new_unit()
    unit.put(Table.SECRET_ATTRIBUTE, (1, "key"), b"sk-very-secret")
    append(writer, unit)
    writer.fold()
    gone = new_unit()
    gone.delete(Table.SECRET_ATTRIBUTE, (1, "key"))
    append(writer, gone)
    writer.fold()
    assert writer.purge_log()
    content = b"".join(file.read_bytes() for file in Path(path).parent.iterdir())
    assert b"sk-very-secret" not in content


@pytest.mark.parametrize(
    ("path_", "problem"),
    [
        ("", "must not be empty"),
        (":memory:", "not durable"),
        ("file:x?mode=memory", "not durable"),
        (".", "is a directory"),
        ("missing/engine.db", "does not exist"),
    ],
)
def test_a_path_that_names_no_usable_file_is_refused(
    path_: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineDatabaseError, match=problem):
        resolve_path(path_)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: str) -> None:
    Path(path).write_text("meeting notes " * 100)
    with pytest.raises(EngineDatabaseError, match="not a database"):
        StoreWriter(path, "full")
    assert Path(path).read_text() == "meeting notes " * 100


def test_the_database_of_another_application_is_refused_and_left_alone(path: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(EngineDatabaseError, match="another application"):
        StoreWriter(path, "full")
    assert Path(path).read_bytes() == before


def test_a_newer_schema_is_refused_with_both_versions(path: str) -> None:
    connection = connect(path, "full")
    connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(EngineDatabaseError, match=r"schema version 7.*reads up to 3"):
        StoreWriter(path, "full")


def test_a_journal_row_that_cannot_be_read_is_reported_and_kept(path: str) -> None:
    connection = connect(path, "full")
    connection.execute("INSERT INTO journal VALUES (1, x'c1c1c1')")
    connection.close()
    with pytest.raises(EngineDatabaseError, match="damaged"):
        StoreWriter(path, "full")
    assert count(path, "journal") == 1


def test_a_journal_row_that_does_not_fit_its_table_is_reported(path: str) -> None:
    connection = connect(path, "full")
    row = encode_operations([(Table.ATTRIBUTE, (1, "key", "one too many"), (b"x",))])
    connection.execute("INSERT INTO journal VALUES (1, ?)", (row,))
    connection.close()
    with pytest.raises(EngineDatabaseError, match="does not fit the table attribute"):
        StoreWriter(path, "full")


def test_a_torn_database_is_reported(path: str) -> None:
    writer = StoreWriter(path, "full")
    for number in range(1, 200):
        unit = new_unit()
        unit.put(Table.ATTRIBUTE, (number, "key"), b"x" * 500)
        writer.append([(number, unit.operations)], [])
    writer.fold()
    writer.purge_log()
    writer.close()
    file = Path(path)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    with pytest.raises(EngineDatabaseError, match=r"malformed|damaged"):
        StoreWriter(path, "full")


@pytest.mark.parametrize("seed", range(10))
def test_the_tables_are_the_same_whenever_the_journal_is_folded(path: str, seed: int) -> None:
    choose = random.Random(seed)
    expected: dict[tuple[int, str], bytes] = {}
    writer = StoreWriter(path, "normal")
    for number in range(60):
        units = [new_unit() for _ in range(choose.randrange(1, 5))]
        for unit in units:
            for _ in range(choose.randrange(1, 4)):
                key = (choose.randrange(3), choose.choice("abcd"))
                if choose.random() < 0.4:
                    expected.pop(key, None)
                    unit.delete(Table.ATTRIBUTE, key)
                else:
                    expected[key] = f"{number}-{choose.random()}".encode()
                    unit.put(Table.ATTRIBUTE, key, expected[key])
        append(writer, *units)
        match choose.randrange(6):
            case 0:
                writer.fold()
            case 1:
                writer.checkpoint()
            case 2:
                writer.close()
                writer = StoreWriter(path, "normal")
            case _:
                pass
    writer.fold()
    writer.close()
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT run, key, value FROM attribute").fetchall()
    connection.close()
    assert {(run, key): value for run, key, value in rows} == expected
