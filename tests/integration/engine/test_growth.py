"""What is no longer needed goes: closed runs with all that is theirs."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from dex_agents.testing import poll_until
from tests.integration.engine.room import BOUND, AsyncStep, Room, open_room

inbox = dex.Channel("inbox", str)
document = dex.Attribute("document", str)
progress = dex.Stream("progress", str, 1 << 20)
KEPT_TABLES = {"meta", "index_type", "stream_group", "sqlite_sequence", "garbage", "blob"}


class Write(AsyncStep[str]):
    """Takes documents of which each replaces the last, until one is empty."""

    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        return dex.Wait.until(inbox.for_one())

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        (text,) = inbox.results(context)
        progress.write(context, "took one")
        if not text:
            return dex.graceful_complete("done")
        document.set(context, text)
        return dex.go_to(Write, text)


class Editor(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Write())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(inbox, document, progress)

    @dex.rpc
    def put(self, context: dex.Context, text: str) -> None:
        inbox.publish(context, text)


def read_rows(room: Room) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(room.database)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


async def wait_until_gone(room: Room, query: str) -> None:
    async def is_gone() -> bool:
        return not (await room.client.search_flows(query, 10)).flows

    await poll_until(is_gone, timeout=BOUND.total_seconds(), awaited=f"nothing for {query}")


@pytest.mark.requirement("engine-growth")
async def test_a_closed_run_is_removed_with_all_that_is_its_own(tmp_path: Path) -> None:
    flow = Editor()
    async with open_room(tmp_path, flow, retention=timedelta(seconds=1)) as room:
        await room.client.start_flow(flow, "open", "")
        await room.client.start_flow(flow, "closed", "")
        for text in ("x" * 40_000, "short", ""):
            await room.call(flow.put, "closed", text)
        await room.client.wait_for_flow("closed", BOUND)
        await wait_until_gone(room, "ExecutionStatus = 'Completed'")
        await room.call(flow.put, "open", "still here")
        # Its ID may be used again, and nothing of the last run is met.
        await room.client.start_flow(flow, "closed", "")
        with pytest.raises(dex.LongPollTimeoutError):
            await room.client.read_stream("closed", progress, timeout=timedelta(0))
        await room.client.stop_flow("closed")
        await room.client.stop_flow("open")
        await wait_until_gone(room, "")
    rows = read_rows(room)
    assert {table: count for table, count in rows.items() if count and table not in KEPT_TABLES} == {}
    # The large document is garbage, and stays until nobody can still be about to load it.
    assert rows["garbage"] == rows["blob"]
