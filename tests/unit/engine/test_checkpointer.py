from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from dex_agents.engine.journal import Table
from dex_agents.engine.store.checkpointer import Checkpointer
from dex_agents.engine.store.database import LOG_SIZE_LIMIT_BYTES
from dex_agents.engine.store.writer import StoreWriter
from tests.unit.engine.building import new_unit

BOUND = 30.0


def commit(writer: StoreWriter) -> None:
    unit = new_unit()
    sequence = writer.last_sequence + 1
    unit.put(Table.ATTRIBUTE, (1, str(sequence)), b"x" * 30_000)
    writer.append([(sequence, unit.operations)], ())


def wait_for_pass(writer: StoreWriter, checkpointer: Checkpointer) -> None:
    """Go on committing until a pass has ended."""
    deadline = time.monotonic() + BOUND
    while not checkpointer.take_done():
        assert time.monotonic() < deadline
        commit(writer)


@pytest.mark.requirement("engine-log")
def test_the_log_begins_anew_though_commits_never_pause(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.db")
    writer = StoreWriter(path, "normal")
    failures: list[BaseException] = []
    checkpointer = Checkpointer(path, "normal", failures.append)
    for _ in range(3):
        while writer.log_bytes < 8 * LOG_SIZE_LIMIT_BYTES:
            commit(writer)
        checkpointer.request()
        wait_for_pass(writer, checkpointer)
        writer.checkpoint()
        commit(writer)
        assert writer.log_bytes <= LOG_SIZE_LIMIT_BYTES
    checkpointer.stop()
    writer.fold()
    written = writer.last_sequence
    writer.close()
    assert failures == []
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM attribute").fetchone() == (written,)
    connection.close()


def test_a_stop_in_the_middle_of_a_pass_waits_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.db")
    writer = StoreWriter(path, "normal")
    commit(writer)
    checkpointer = Checkpointer(path, "normal", lambda _error: None)
    checkpointer.request()
    checkpointer.stop()
    names = {thread.name for thread in threading.enumerate()}
    writer.close()
    assert "dex-agents-checkpointer" not in names
