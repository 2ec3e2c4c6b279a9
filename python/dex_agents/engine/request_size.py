"""Keeps what a Worker is sent below what it can receive.

The SDK keeps gRPC's receive limit of 4 MiB, and a Step or RPC may load more state than that. The largest
values then travel as IDs, which the Worker resolves as it does those of blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import ServiceError, invalid_argument
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
    movable = [
        (value.ByteSize(), value)
        for value in _iterate_values(response.task, run)
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
    size = response.ByteSize()
    if size > MAX_INLINE_BYTES:
        return invalid_argument(
            "task",
            f"what it loads takes {size} bytes, above the limit of {MAX_INLINE_BYTES}; load less of it",
        )
    return None


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
