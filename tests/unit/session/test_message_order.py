"""Loaded messages stay with their Channel, whatever order a protobuf map has."""

from __future__ import annotations

from typing import Any

import pytest
from dex import AsyncWorker, BlobCacheConfig, PullWorkerOptions, Registry, WorkerOptions
from dex._async_value_hydrator import AsyncValueHydrator
from dex.dexpb import dex_pb2 as pb

from dex_agents.session.message_order import ChannelKeepingHydrator, keep_messages_with_their_channels

_REQUESTS: list[tuple[str, type[Any]]] = [
    ("wait_for_request", pb.InvokeWaitForMethodRequest),
    ("execute_request", pb.InvokeExecuteMethodRequest),
    ("rpc_request", pb.InvokeWorkerRPCRequest),
]


class _NoBlobs:
    """A cache without anything in it: the values here are none of its business."""

    def __init__(self) -> None:
        self.config = BlobCacheConfig("unused", 1)

    def get(self, blob_id: str) -> bytes | None:
        return None

    def put(self, blob_id: str, payload: bytes) -> bool:
        return False

    def delete(self, blob_id: str) -> None: ...

    def delete_all(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(("method", "request_type"), _REQUESTS)
async def test_each_channel_shows_its_own_messages(method: str, request_type: type[Any]) -> None:
    service: Any = None
    hydrator = ChannelKeepingHydrator(AsyncValueHydrator(service, _NoBlobs()))
    request = request_type()
    request.context.flow_id = "s"
    # With so many names the copy of a map lists them in another order in every process.
    for number in range(200):
        for position in range(number % 3):
            message = request.loaded_channel_messages[f"channel/{number}"].messages.add()
            message.channel_name, message.message_id = f"channel/{number}", f"{number}.{position}"
            message.value.string_value = f"{number}.{position}"
    for wrapped in ("input", "step_input"):
        if wrapped in request_type.DESCRIPTOR.fields_by_name:
            getattr(request, wrapped).string_value = "input"

    resolved = await getattr(hydrator, method)(request_type.FromString(request.SerializeToString()))

    for name, channel in request.loaded_channel_messages.items():
        shown = resolved.loaded_channel_messages[name].messages
        assert [one.value.string_value for one in shown] == [one.message_id for one in channel.messages]


async def test_a_worker_that_pulls_uses_it_and_another_sdk_is_noticed() -> None:
    options = WorkerOptions(server_address="unix:/nowhere", pull=PullWorkerOptions(max_concurrent_tasks=2))
    worker = AsyncWorker(Registry([], allow_async_handlers=True), _NoBlobs(), options)
    try:
        keep_messages_with_their_channels(worker)
    finally:
        await worker.close()
    unknown: Any = object()
    with pytest.raises(RuntimeError, match="dex-python-sdk"):
        keep_messages_with_their_channels(unknown)
