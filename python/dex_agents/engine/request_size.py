"""Keeps what a Worker or an inspector is sent below what it can receive.

The SDK keeps gRPC's receive limit of 4 MiB, and a Step or RPC may load more state than that. The largest
values then travel as IDs, which the receiver resolves as it does those of blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dex.dexpb import dex_pb2 as pb
from google.protobuf.message import Message

from dex_agents.engine.failures import ServiceError, failed_precondition, invalid_argument
from dex_agents.engine.state import Run
from dex_agents.engine.values import MAX_INLINE_BYTES

MIN_MOVED_BYTES = 256
"""Smaller values stay: an ID would save next to nothing."""

_MOVABLE_KINDS = {"string_value", "obj_value"}


def fit_task(
    response: pb.PollWorkerTaskResponse, run: Run, keep: Callable[[pb.Value], pb.Value]
) -> ServiceError | None:
    """Move values out of a task until it can be received.

    Args:
        response: The task; changed in place.
        run: The run that it belongs to.
        keep: Returns the ID under which a value can be fetched.

    Returns:
        Why the task cannot be made small enough, or `None`.
    """
    excess = response.ByteSize() - MAX_INLINE_BYTES
    if excess <= 0:
        return None
    _move_largest(_iterate_values(response.task, run), excess, keep)
    size = response.ByteSize()
    if size > MAX_INLINE_BYTES:
        return invalid_argument(
            "task",
            f"what it loads takes {size} bytes, above the limit of {MAX_INLINE_BYTES}; load less of it",
        )
    return None


def fit_reply(reply: Message, keep: Callable[[pb.Value], pb.Value], room: int = MAX_INLINE_BYTES) -> None:
    """Move values out of an answer until a client can receive it.

    Args:
        reply: The answer; changed in place.
        keep: Returns the ID under which a value can be fetched.
        room: Bytes that it may take.

    Raises:
        ServiceError: It cannot be made small enough.
    """
    excess = reply.ByteSize() - room
    if excess <= 0:
        return
    _move_largest(_iterate_all_values(reply), excess, keep)
    size = reply.ByteSize()
    if size > room:
        raise failed_precondition(f"the answer takes {size} bytes, above the limit of {room}")


def _move_largest(values: Iterable[pb.Value], excess: int, keep: Callable[[pb.Value], pb.Value]) -> None:
    movable = [
        (value.ByteSize(), value)
        for value in values
        if value.WhichOneof("kind") in _MOVABLE_KINDS and value.ByteSize() >= MIN_MOVED_BYTES
    ]
    movable.sort(key=_read_size, reverse=True)
    for size, value in movable:
        if excess <= 0:
            break
        kept = pb.Value()
        kept.CopyFrom(value)
        value.CopyFrom(keep(kept))
        excess -= size - value.ByteSize()


def _iterate_all_values(message: Message) -> Iterator[pb.Value]:
    if isinstance(message, pb.Value):
        yield message
        return
    for field, content in message.ListFields():
        if field.message_type is None:
            continue
        parts: Iterable[Any]
        if field.message_type.GetOptions().map_entry:
            parts = content.values()
        else:
            parts = content if field.is_repeated else (content,)
        for part in parts:
            if isinstance(part, Message):
                yield from _iterate_all_values(part)


def _iterate_values(task: pb.PollWorkerTask, run: Run) -> Iterator[pb.Value]:
    request: pb.InvokeWaitForMethodRequest | pb.InvokeExecuteMethodRequest | pb.InvokeWorkerRPCRequest
    match task.WhichOneof("request"):
        case "wait_for":
            request = task.wait_for
            yield task.wait_for.step_input
        case "execute":
            request = task.execute
            yield task.execute.step_input
            for local in task.execute.step_exe_locals:
                yield local.value
            for channel in task.execute.condition_results.channel_results:
                yield from channel.values
        case _:
            request = task.rpc
            yield task.rpc.input
    for attribute in request.attributes:
        stored = run.find_attribute(attribute.key)
        # A hard-delete value must not be kept anywhere else.
        if stored is None or not stored.is_secret:
            yield attribute.value
    for messages in request.loaded_channel_messages.values():
        for message in messages.messages:
            yield message.value


def _read_size(entry: tuple[int, pb.Value]) -> int:
    return entry[0]
