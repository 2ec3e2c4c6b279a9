"""Workers of two versions on one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from dex import AsyncWorker, CodecRegistry, PullWorkerOptions, Registry, Value, WireKind, WorkerOptions

from dex_agents import (
    AgentSessionClient,
    AgentSessionFlow,
    AgentWorker,
    SessionError,
    WireFormatError,
    session_codecs,
)
from dex_agents.builtin_loop import function_tool
from dex_agents.codecs.attributes import StructCodec
from dex_agents.engine import LocalEngine
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.snapshots import SessionProgress
from dex_agents.wire.tool_calls import AgentToolCall, ToolEffect
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


_StructT = TypeVar("_StructT", bound=msgspec.Struct)


class _NextVariant(StructCodec[_StructT]):
    """The codec of a later version in which a value may say `from_the_future`, where this one says a word."""

    def __init__(self, struct_type: type[_StructT], word: str) -> None:
        super().__init__(struct_type)
        self.read_type = struct_type
        self._word = f'"{word}"'

    def encode(self, value: _StructT) -> Value:
        written = super().encode(value)
        return Value(WireKind.JSON, str(written.data).replace(self._word, '"from_the_future"'))

    def decode(self, value: Value) -> _StructT:
        return super().decode(Value(WireKind.JSON, str(value.data).replace('"from_the_future"', self._word)))


@asynccontextmanager
async def _newer_worker(
    flow: AgentSessionFlow, address: str, *codecs: _NextVariant[Any]
) -> AsyncGenerator[None, None]:
    by_type = {codec.read_type: codec for codec in codecs}
    registry = Registry([flow], CodecRegistry({**session_codecs(), **by_type}), allow_async_handlers=True)
    pull = WorkerOptions(server_address=address, pull=PullWorkerOptions(max_concurrent_tasks=4))
    worker = AsyncWorker(registry, FetchingBlobCache(address), pull)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.start())
        yield
        await worker.close()
        await running


@pytest.mark.requirement("format-variants")
@pytest.mark.parametrize(
    ("struct_type", "word"), [(AgentInterrupt, "approval"), (AgentToolCall, "waiting_for_approval")]
)
async def test_a_call_in_a_state_of_a_newer_version_waits_for_a_worker_that_knows_it(
    tmp_path: Path, struct_type: type[Any], word: str
) -> None:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay() -> str:
        """Pay."""
        return "paid"

    flow = build_flow([pay])
    newer = _NextVariant(struct_type, word)
    async with (
        LocalEngine(tmp_path / "a.db") as engine,
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        async with _newer_worker(flow, engine.server_address, newer):
            await client.start_session("s", first_message=asking(("pay", {})))
            (asked,) = await wait_for_interrupts(client, "s", 1)
        async with AgentWorker(flow, server_address=engine.server_address):
            with pytest.raises(SessionError, match=rf"{struct_type.__name__}.*from_the_future"):
                await client.get_agent_snapshot("s")
            with pytest.raises(SessionError, match=rf"{struct_type.__name__}.*from_the_future"):
                await client.resolve_interrupt("s", asked.interrupt_id, "approve")
        async with _newer_worker(flow, engine.server_address, newer):
            assert await client.resolve_interrupt("s", asked.interrupt_id, "approve")
            await client.wait_for_idle("s")
            assert await answers(client, "s") == ["paid"]


async def test_a_reply_that_a_client_can_not_read_is_an_error_of_this_package(tmp_path: Path) -> None:
    flow = build_flow()
    async with (
        LocalEngine(tmp_path / "a.db") as engine,
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
        _newer_worker(flow, engine.server_address, _NextVariant(SessionProgress, "completed")),
    ):
        await client.start_session("s", first_message="hello")
        with pytest.raises(WireFormatError, match=r"SessionProgress.*from_the_future"):
            await client.wait_for_idle("s")
        assert (await client.get_agent_snapshot("s")).last_turn_outcome == "completed"
