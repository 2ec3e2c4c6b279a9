"""The redo journal: what a committed unit writes, as physical operations on the state tables.

A unit is one journal row holding a list of operations. An operation puts or deletes one row of one state
table and names it by its whole primary key, so applying a list twice is the same as applying it once, and
only the last operation on a key matters when many units are folded at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.state import Run, RunChain, StepExecution

Cell = str | int | float | bytes | None
Cells = tuple[Cell, ...]
Operation = tuple[int, Cells, Cells | None]
"""Table, primary key, and the other columns or `None` to delete the row."""


class Table(IntEnum):
    """State tables, by the number they have in the journal. Numbers are stored: never reuse one."""

    RUN = 0
    ATTRIBUTE = 1
    SECRET_ATTRIBUTE = 2
    INDEX_VALUE = 3
    CHANNEL_MESSAGE = 4
    STEP = 5
    STEP_PROGRESS = 6
    COUNTER = 7
    OUTPUT = 8
    STREAM_GROUP = 9
    STREAM = 10
    STREAM_MESSAGE = 11
    INDEX_TYPE = 12
    GARBAGE = 13
    EVENT = 14
    STEP_FAILURE = 15
    RUN_CHAIN = 16


class EventKind(IntEnum):
    """What a history event tells of: the field of `FlowHistoryEvent` that holds it. Numbers are stored."""

    NONE = 0
    FLOW_STARTED = pb.FlowHistoryEvent.FLOW_STARTED_OR_CONTINUED_FIELD_NUMBER
    FLOW_CLOSED = pb.FlowHistoryEvent.FLOW_CLOSED_FIELD_NUMBER
    WAIT_FOR_COMPLETED = pb.FlowHistoryEvent.STEP_WAIT_FOR_COMPLETED_FIELD_NUMBER
    WAIT_FOR_FAILED = pb.FlowHistoryEvent.STEP_WAIT_FOR_FAILED_FIELD_NUMBER
    EXECUTE_COMPLETED = pb.FlowHistoryEvent.STEP_EXECUTE_COMPLETED_FIELD_NUMBER
    EXECUTE_FAILED = pb.FlowHistoryEvent.STEP_EXECUTE_FAILED_FIELD_NUMBER
    RPC_COMPLETED = pb.FlowHistoryEvent.RPC_EXECUTION_COMPLETED_FIELD_NUMBER
    MESSAGES_PUBLISHED = pb.FlowHistoryEvent.CHANNEL_EXTERNAL_PUBLISH_FIELD_NUMBER
    WAIT_FOR_PENDING = pb.FlowHistoryEvent.STEP_WAIT_FOR_PENDING_FIELD_NUMBER
    EXECUTE_PENDING = pb.FlowHistoryEvent.STEP_EXECUTE_PENDING_FIELD_NUMBER
    MESSAGES_DELETED = pb.FlowHistoryEvent.CHANNEL_EXTERNAL_DELETE_FIELD_NUMBER


@dataclass(frozen=True, slots=True)
class TableShape:
    """Columns of a state table, in the order operations carry them.

    Attributes:
        name: Its SQL name.
        key: Primary key columns.
        columns: The other columns.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


SHAPES: dict[Table, TableShape] = {
    Table.RUN: TableShape(
        "run",
        ("run",),
        (
            "run_id",
            "flow_id",
            "flow_type",
            "request_id",
            "started_at",
            "config",
            "search_mode",
            "timeout_at",
            "timeout_policy",
            "timeout_options",
            "status",
            "closed_at",
            "error_type",
            "error_message",
            "is_completing",
        ),
    ),
    Table.ATTRIBUTE: TableShape("attribute", ("run", "key"), ("value",)),
    Table.SECRET_ATTRIBUTE: TableShape("secret_attribute", ("run", "key"), ("value",)),
    Table.INDEX_VALUE: TableShape(
        "index_value", ("run", "key", "position"), ("attribute", "content", "value")
    ),
    Table.CHANNEL_MESSAGE: TableShape(
        "channel_message", ("run", "channel", "sequence"), ("message_id", "value")
    ),
    Table.STEP: TableShape(
        "step", ("run", "number"), ("execution_id", "step_type", "has_wait", "due_at", "movement")
    ),
    Table.STEP_PROGRESS: TableShape(
        "step_progress",
        ("run", "number"),
        (
            "phase",
            "attempt",
            "is_started",
            "first_attempt_at",
            "due_at",
            "condition",
            "timers",
            "locals",
            "results",
            "heartbeat",
        ),
    ),
    Table.COUNTER: TableShape("counter", ("run", "name"), ("value",)),
    Table.OUTPUT: TableShape("output", ("run", "position"), ("output",)),
    Table.STREAM_GROUP: TableShape("stream_group", ("stream_group",), ("flow_type", "name", "capacity")),
    Table.STREAM: TableShape("stream", ("stream",), ("stream_group", "flow_id")),
    Table.STREAM_MESSAGE: TableShape(
        "stream_message", ("sequence",), ("stream_group", "stream", "created_at", "source", "value", "size")
    ),
    Table.INDEX_TYPE: TableShape("index_type", ("key",), ("type",)),
    Table.GARBAGE: TableShape("garbage", ("number",), ("due_at",)),
    # Not a row of its own: it makes the fold keep the unit it is in, as what happened to the run.
    Table.EVENT: TableShape(
        "history",
        ("run", "event"),
        ("at", "kind", "execution", "execution_id", "attempt", "due_at", "detail"),
    ),
    Table.STEP_FAILURE: TableShape("step_failure", ("run", "number"), ("failure",)),
    Table.RUN_CHAIN: TableShape("run_chain", ("run",), ("attempt", "first_run_id", "begun_at", "request")),
}

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[int, tuple[Any, ...], tuple[Any, ...] | None]])


def encode_operations(operations: Sequence[Operation]) -> bytes:
    """Spell the operations of one unit as a journal row."""
    return _encoder.encode(operations)


def encode_history(operations: Sequence[Operation]) -> bytes:
    """Spell the operations of a unit without its hard-delete values, and without what is searched of them."""
    return encode_operations(
        [
            (table, key, (None,) if table == Table.SECRET_ATTRIBUTE and columns is not None else columns)
            for table, key, columns in operations
            if table != Table.INDEX_VALUE
        ]
    )


def decode_operations(row: bytes) -> list[Operation]:
    """Read a journal row back.

    Raises:
        msgspec.DecodeError: The bytes are not a journal row.
    """
    return _decoder.decode(row)


def build_run_operation(run: Run) -> Operation:
    """Return the operation that stores everything about a run that is not in a table of its own."""
    return (
        Table.RUN,
        (run.number,),
        (
            run.run_id,
            run.flow_id,
            run.flow_type,
            run.request_id,
            run.started_at,
            run.config.SerializeToString(),
            int(run.config.active_step_search_mode),
            run.timeout_at,
            int(run.timeout_policy),
            run.timeout_options.SerializeToString(),
            int(run.status),
            run.closed_at,
            int(run.error_type),
            run.error_message,
            int(run.is_completing),
        ),
    )


def build_step_operation(run: Run, execution: StepExecution) -> Operation:
    """Return the operation that stores a new execution."""
    return (
        Table.STEP,
        (run.number, execution.number),
        (
            execution.execution_id,
            execution.step_type,
            int(not execution.movement.step_options.skip_wait_for),
            execution.due_at,
            execution.movement.SerializeToString(),
        ),
    )


def build_progress_operation(run: Run, execution: StepExecution) -> Operation:
    """Return the operation that stores how far an execution has come."""
    condition, results, heartbeat = execution.condition, execution.results, execution.heartbeat
    return (
        Table.STEP_PROGRESS,
        (run.number, execution.number),
        (
            execution.phase,
            execution.attempt,
            int(execution.is_started),
            execution.first_attempt_at,
            execution.due_at,
            None if condition is None else condition.SerializeToString(),
            _encoder.encode([(timer.fire_at, int(timer.status)) for timer in execution.timers]),
            encode_locals(execution.step_locals.values()),
            None if results is None else results.SerializeToString(),
            None if heartbeat is None else heartbeat.SerializeToString(),
        ),
    )


def build_chain_operation(run: Run, chain: RunChain) -> Operation:
    """Return the operation that stores the place of a run among those of its start."""
    request = chain.request
    return (
        Table.RUN_CHAIN,
        (run.number,),
        (
            chain.attempt,
            chain.first_run_id,
            chain.begun_at,
            None if request is None else request.SerializeToString(),
        ),
    )


def encode_locals(step_locals: Iterable[pb.KV]) -> bytes:
    """Spell Step locals as bytes; none are the empty string."""
    return pb.InvokeExecuteMethodRequest(step_exe_locals=step_locals).SerializeToString()


def decode_locals(encoded: bytes) -> list[pb.KV]:
    """Read Step locals back."""
    return list(pb.InvokeExecuteMethodRequest.FromString(encoded).step_exe_locals)


NO_TIMERS = _encoder.encode([])
"""How an execution without Timers is spelled."""

_timer_decoder = msgspec.msgpack.Decoder(list[tuple[float, int]])


def decode_timers(encoded: bytes) -> list[tuple[float, int]]:
    """Read the Timers of an execution back, as instants and statuses."""
    return _timer_decoder.decode(encoded)
