"""What an engine makes of a log or a journal that is not what it left."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dex_agents.engine.journal import Table
from dex_agents.engine.maintenance import check_database
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.errors import EngineDatabaseError
from tests.unit.engine.building import new_unit

UNITS = 24


def commit(writer: StoreWriter) -> None:
    sequence = writer.last_sequence + 1
    unit = new_unit()
    unit.put(Table.ATTRIBUTE, (1, f"{sequence:03}"), b"x" * (sequence * 37 % 900))
    unit.put(Table.COUNTER, (1, "units"), sequence)
    writer.append([(sequence, unit.operations)], ())


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an engine that was killed: folds in the middle, and a log that was never copied."""
    folder, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("crashed")
    writer = StoreWriter(str(folder / "engine.db"), "full")
    for number in range(UNITS):
        commit(writer)
        if number == UNITS // 2:
            writer.fold()
    for name in ("engine.db", "engine.db-wal"):
        shutil.copy(folder / name, copy / name)
    writer.close()
    return copy


def read_units(path: Path) -> int:
    """Return how many units are in a database, all of them from the first on."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM attribute ORDER BY key")]
        found = connection.execute("SELECT value FROM counter WHERE name = 'units'").fetchone()
    assert keys == [f"{number:03}" for number in range(1, len(keys) + 1)]
    assert (0 if found is None else found[0]) == len(keys)
    return len(keys)


def recover(path: Path) -> int | None:
    """Start on the files as an engine does; return the units found, or `None` for a refusal."""
    try:
        writer = StoreWriter(str(path), "full")
    except EngineDatabaseError:
        return None
    commit(writer)
    writer.fold()
    writer.close()
    assert check_database(path).problems == ()
    return read_units(path) - 1


@pytest.mark.requirement("engine-damage")
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_log_that_is_cut_or_altered_leaves_a_whole_number_of_units_or_is_refused(
    crashed: Path, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(shutil.copytree(crashed, Path(name) / "copy")) / "engine.db"
        log = path.with_name("engine.db-wal")
        content = bytearray(log.read_bytes())
        position = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            del content[position:]
        else:
            content[position] ^= data.draw(st.integers(1, 255))
        log.write_bytes(content)
        units = recover(path)
        assert units is None or units <= UNITS


def test_a_log_that_is_whole_is_recovered_whole(crashed: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(crashed, tmp_path / "copy")) / "engine.db"
    assert recover(path) == UNITS


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM journal WHERE sequence = 20", "the journal lacks the units between 19 and 21"),
        ("DELETE FROM journal WHERE sequence <= 14", "the journal lacks the units between 13 and 15"),
        ("UPDATE journal SET operations = x'91' WHERE sequence = 20", "damaged"),
        ("UPDATE journal SET operations = x'9193639103c0' WHERE sequence = 20", "damaged"),
        ("DELETE FROM meta WHERE name = 'folded'", "the entry 'folded' is missing"),
        ("UPDATE meta SET value = 'many' WHERE name = 'folded'", "damaged"),
        ("DROP TABLE counter", "no such table: counter"),
    ],
)
def test_a_journal_that_cannot_be_followed_is_refused(
    crashed: Path, tmp_path: Path, damage: str, problem: str
) -> None:
    path = Path(shutil.copytree(crashed, tmp_path / "copy")) / "engine.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(damage)
    with pytest.raises(EngineDatabaseError, match=problem):
        StoreWriter(str(path), "full")


@pytest.mark.parametrize(
    ("version", "undo"),
    [
        (
            1,
            "DROP TABLE garbage; DROP INDEX run_by_close; DELETE FROM meta WHERE name = 'last_blob';"
            "DROP TABLE history; DROP TABLE step_failure; DROP TABLE run_chain;",
        ),
        (2, "DROP TABLE history; DROP TABLE step_failure; DROP TABLE run_chain;"),
    ],
)
def test_a_database_of_an_earlier_version_is_brought_to_the_present_one(
    tmp_path: Path, version: int, undo: str
) -> None:
    path = tmp_path / "engine.db"
    writer = StoreWriter(str(path), "full")
    for _ in range(UNITS):
        commit(writer)
    writer.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(f"{undo}PRAGMA user_version = {version};")
    assert recover(path) == UNITS
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        for table in ("garbage", "history", "step_failure", "run_chain"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
