"""Workers of two versions on one session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from dex import AsyncWorker, CodecRegistry, PullWorkerOptions, Registry, Value, WireKind, WorkerOptions

from dex_agents import AgentSessionClient, AgentWorker, SessionError, session_codecs
from dex_agents.builtin_loop import function_tool
from dex_agents.codecs.attributes import StructCodec
from dex_agents.engine import LocalEngine
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import answers, ask, asking, build_flow, serve, wait_for_interrupts


@pytest.mark.requirement("upgrade-waits")
@pytest.mark.case("BR-053")
async def test_a_waiting_session_goes_on_under_a_new_version_of_its_agent(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def old_tool() -> str:
        """Be removed by the next version."""
        raise AssertionError("must not run")

    @function_tool(effect=ToolEffect.READ)
    async def new_tool() -> str:
        """Come with the next version."""
        return "new"

    async with serve(tmp_path / "a.db", build_flow([old_tool], instructions="version A")) as client:
        await client.start_session("s", first_message=asking(("old_tool", {})))
        (asked,) = await wait_for_interrupts(client, "s", 1)
    async with serve(tmp_path / "a.db", build_flow([new_tool], instructions="version B")) as client:
        assert await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        progress = await client.wait_for_idle("s")
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", asking(("new_tool", {})))
        assert (await answers(client, "s"))[-1] == "new"
    assert progress.last_turn_outcome == "completed"
    assert call.status == "failed"
    assert "old_tool" in (call.error or "")


class _NextFormat(StructCodec[SessionRecord]):
    """The codec of a later version: it writes format 2 and reads both."""

    def encode(self, value: SessionRecord) -> Value:
        written = super().encode(value)
        return Value(WireKind.JSON, str(written.data).replace('"format":1', '"format":2', 1))

    def decode(self, value: Value) -> SessionRecord:
        return super().decode(Value(WireKind.JSON, str(value.data).replace('"format":2', '"format":1', 1)))


@pytest.mark.requirement("format-newer")
async def test_a_value_from_a_newer_version_is_named_and_waits_for_a_worker_that_reads_it(
    tmp_path: Path,
) -> None:
    flow = build_flow()
    newer = Registry(
        [flow],
        CodecRegistry({**session_codecs(), SessionRecord: _NextFormat(SessionRecord)}),
        allow_async_handlers=True,
    )
    async with (
        LocalEngine(tmp_path / "a.db") as engine,
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        address = engine.server_address
        pull = WorkerOptions(server_address=address, pull=PullWorkerOptions(max_concurrent_tasks=4))
        async with asyncio.TaskGroup() as group:
            worker = AsyncWorker(newer, FetchingBlobCache(address), pull)
            running = group.create_task(worker.start())
            await client.start_session("s", first_message="written by the new version")
            await client.wait_for_idle("s")
            await worker.close()
            await running
        async with AgentWorker(flow, server_address=address):
            with pytest.raises(SessionError, match=r"SessionRecord.format: written in format 2 by a newer"):
                await client.get_progress("s")
        async with asyncio.TaskGroup() as group:
            worker = AsyncWorker(newer, FetchingBlobCache(address), pull)
            running = group.create_task(worker.start())
            await ask(client, "s", "still here")
            assert await answers(client, "s") == [
                "you said: written by the new version",
                "you said: still here",
            ]
            await worker.close()
            await running
