"""Keeps loaded Channel messages with the Channel that they came from.

The SDK resolves the values of a Step's loaded messages in the order in which one protobuf map lists its
Channels, and puts them back in the order of a copy of that map. The two orders differ in some processes, for
some names: with messages of two Channels loaded, each Channel then shows the other's values. Here they are
put back once more, by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

from dex import AsyncWorker
from dex.dexpb import dex_pb2 as pb

__all__ = ["ChannelKeepingHydrator", "ValueHydrator", "keep_messages_with_their_channels"]

RequestT = TypeVar(
    "RequestT", pb.InvokeWaitForMethodRequest, pb.InvokeExecuteMethodRequest, pb.InvokeWorkerRPCRequest
)


class ValueHydrator(Protocol):
    """What is used of the SDK's own."""

    async def hydrate_all(self, flow_id: str, values: list[pb.Value]) -> list[pb.Value]:
        """Resolve values, in their order."""
        ...

    async def wait_for_request(self, request: pb.InvokeWaitForMethodRequest) -> pb.InvokeWaitForMethodRequest:
        """Return a copy with every value resolved."""
        ...

    async def execute_request(self, request: pb.InvokeExecuteMethodRequest) -> pb.InvokeExecuteMethodRequest:
        """Return a copy with every value resolved."""
        ...

    async def rpc_request(self, request: pb.InvokeWorkerRPCRequest) -> pb.InvokeWorkerRPCRequest:
        """Return a copy with every value resolved."""
        ...


class ChannelKeepingHydrator:
    """The SDK's hydrator, with loaded messages paired by the name of their Channel."""

    def __init__(self, inner: ValueHydrator) -> None:
        """Wrap it."""
        self._inner = inner

    async def wait_for_request(self, request: pb.InvokeWaitForMethodRequest) -> pb.InvokeWaitForMethodRequest:
        """Resolve what a Step's `wait_for` is given."""
        return await self._keep(request, self._inner.wait_for_request)

    async def execute_request(self, request: pb.InvokeExecuteMethodRequest) -> pb.InvokeExecuteMethodRequest:
        """Resolve what a Step's `execute` is given."""
        return await self._keep(request, self._inner.execute_request)

    async def rpc_request(self, request: pb.InvokeWorkerRPCRequest) -> pb.InvokeWorkerRPCRequest:
        """Resolve what an RPC is given."""
        return await self._keep(request, self._inner.rpc_request)

    def __getattr__(self, name: str) -> Any:
        """Leave everything else to the SDK."""
        return getattr(self._inner, name)

    async def _keep(self, request: RequestT, resolve: Callable[[RequestT], Awaitable[RequestT]]) -> RequestT:
        resolved = await resolve(request)
        if len(request.loaded_channel_messages) < 2:
            return resolved
        for name, channel in request.loaded_channel_messages.items():
            values = await self._inner.hydrate_all(
                request.context.flow_id, [message.value for message in channel.messages]
            )
            for message, value in zip(resolved.loaded_channel_messages[name].messages, values, strict=True):
                message.value.CopyFrom(value)
        return resolved


def keep_messages_with_their_channels(worker: AsyncWorker) -> None:
    """Let a Worker that pulls its tasks use a `ChannelKeepingHydrator`.

    Raises:
        RuntimeError: The SDK is another one than this was written for.
    """
    dispatcher: Any = getattr(getattr(worker, "_pull", None), "_dispatcher", None)
    inner = getattr(dispatcher, "_async_hydrator", None)
    if inner is None:
        raise RuntimeError("this version of dex-python-sdk resolves values in a way that is not known here")
    vars(dispatcher)["_async_hydrator"] = ChannelKeepingHydrator(cast("ValueHydrator", inner))
