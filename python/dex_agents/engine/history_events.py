"""The events of a run, read from the units that it kept: pure, and off the commit path.

A kept unit numbers its events (`Unit.record`) and says what was written with them. An event shows that as the
wire has it:

==========================  ===============================================================================
an event shows              from
==========================  ===============================================================================
what was written            the unit: Attributes, messages, Steps it started, how the run closed
what a method was given     the units before: the input of its Step, what its wait ended with, its locals
everything else             the detail that was stored with it
==========================  ===============================================================================

A method whose Step was started by a unit that is no longer kept has `input.unavailable`. A large value is the
ID of its blob, and a hard-delete Attribute is there without its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import SHAPES, EventKind, Operation, Table, decode_locals, decode_operations

_RUN_COLUMNS = SHAPES[Table.RUN].columns
_NULL = pb.Value(null_value="NULL_VALUE")


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some events of a run.

    Attributes:
        events: In order.
        has_more: There are events after them.
    """

    events: list[pb.FlowHistoryEvent]
    has_more: bool


@dataclass(slots=True)
class _Given:
    """What the methods of an execution are given, as far as it is known.

    Attributes:
        movement: Type, input and options of its Step.
        results: What its wait ended with, serialised, or `None`.
        step_locals: Its locals, serialised.
    """

    movement: pb.StepMovement
    results: bytes | None = None
    step_locals: bytes = b""


def read_history(units: Iterable[bytes], run: int, run_attempt: int, start: int, limit: int) -> HistoryPage:
    """Read events of a run.

    Args:
        units: Units in commit order, from the oldest kept; those of other runs are passed over.
        run: Number of the run.
        run_attempt: Its number among the runs of its start.
        start: The first event wanted; when it is no longer kept, the next that is.
        limit: The most events wanted.
    """
    events: list[pb.FlowHistoryEvent] = []
    given: dict[int, _Given] = {}
    for unit in units:
        operations = decode_operations(unit)
        noted = [each for each in operations if each[0] == Table.EVENT and each[1][0] == run]
        if not noted:
            continue
        own = [each for each in operations if each[1][0] == run and each[0] != Table.EVENT]
        for _, (_, number), columns in noted:
            if columns is None or columns[1] == EventKind.NONE or cast("int", number) < start:
                continue
            if len(events) == limit:
                return HistoryPage(events, has_more=True)
            event = _build_event(cast("tuple[Any, ...]", columns), own, operations, given)
            event.event_id = cast("int", number)
            event.run_attempt = run_attempt
            events.append(event)
        _learn(own, given)
    return HistoryPage(events, has_more=False)


def _learn(operations: Iterable[Operation], given: dict[int, _Given]) -> None:
    for table, key, columns in operations:
        if table == Table.STEP:
            number = cast("int", key[1])
            if columns is None:
                given.pop(number, None)
            else:
                given[number] = _Given(pb.StepMovement.FromString(cast("bytes", columns[4])))
        elif table == Table.STEP_PROGRESS and columns is not None:
            execution = given.get(cast("int", key[1]))
            if execution is not None:
                execution.step_locals = cast("bytes", columns[7])
                execution.results = cast("bytes | None", columns[8])


def _build_event(
    columns: tuple[Any, ...], own: list[Operation], unit: list[Operation], given: dict[int, _Given]
) -> pb.FlowHistoryEvent:
    at, kind, number, execution_id, attempt, due_at, detail = columns
    event = pb.FlowHistoryEvent.FromString(detail)
    event.event_time.FromNanoseconds(int(at * 1e9))
    match kind:
        case EventKind.FLOW_STARTED:
            _fill_started(event.flow_started_or_continued, own)
        case EventKind.FLOW_CLOSED:
            _fill_closed(event.flow_closed, own, unit)
        case EventKind.WAIT_FOR_COMPLETED:
            completed_wait = event.step_wait_for_completed
            _fill_effects(completed_wait.output, own)
            completed_wait.output.upsert_step_execution_locals.extend(_read_locals(own, number))
        case EventKind.EXECUTE_COMPLETED:
            output = event.step_execute_completed.output
            _fill_effects(output, own)
            _fill_decision(output.step_decision, own, execution_id)
        case EventKind.RPC_COMPLETED:
            rpc = event.rpc_execution_completed
            _fill_effects(rpc, own)
            if rpc.rpc_name:
                rpc.step_decision.next_steps.extend(_read_next_steps(own, f"__rpc/{rpc.rpc_name}"))
        case EventKind.MESSAGES_PUBLISHED:
            event.channel_external_publish.messages.extend(_read_messages(own))
        case _:
            pass
    method = getattr(event, event.WhichOneof("payload") or "")
    if number:
        is_execute = kind in {
            EventKind.EXECUTE_COMPLETED,
            EventKind.EXECUTE_FAILED,
            EventKind.EXECUTE_PENDING,
        }
        execution = given.get(number)
        context = method.context
        context.step_execution_id = execution_id
        context.step_type = execution_id.rpartition("-")[0]
        context.durability = pb.STEP_DURABILITY_SYNC
        context.final_attempt = attempt
        context.started_time.FromNanoseconds(int(due_at * 1e9))
        context.duration.FromNanoseconds(max(0, int((at - due_at) * 1e9)))
        if execution is None:
            method.input.unavailable = True
        else:
            _fill_given(method, execution, is_execute=is_execute)
    return event


def _fill_given(method: Any, execution: _Given, *, is_execute: bool) -> None:
    movement = execution.movement
    options = movement.step_options
    method.context.from_step_execution_id = movement.from_step_execution_id_internal_only
    method.context.method_options.heartbeat_timeout_seconds = options.heartbeat_timeout_seconds
    if movement.HasField("step_input"):
        method.input.step_input.CopyFrom(movement.step_input)
    method.input.step_execution_locals.extend(decode_locals(execution.step_locals))
    if is_execute:
        method.context.method_options.timeout_seconds = options.execute_timeout_seconds
        method.context.method_options.retry_policy.CopyFrom(options.execute_retry_policy)
        if execution.results is not None:
            method.input.condition_results.MergeFromString(execution.results)
    else:
        method.context.method_options.timeout_seconds = options.wait_for_timeout_seconds
        method.context.method_options.retry_policy.CopyFrom(options.wait_for_retry_policy)


def _fill_started(started: pb.FlowStartedOrContinuedHistoryEvent, own: list[Operation]) -> None:
    (run,) = _read_runs(own)[:1]
    started.flow_execution_id.flow_id = run["flow_id"]
    started.flow_execution_id.run_id = run["run_id"]
    started.flow_type = run["flow_type"]
    started.flow_config.MergeFromString(run["config"])
    started.flow_timeout_policy = run["timeout_policy"]
    start = started.initial_start
    start.SetInParent()
    for movement in _read_next_steps(own, "__start__"):
        start.start_step_type = movement.step_type
        start.step_input.CopyFrom(movement.step_input)
        start.step_options.CopyFrom(movement.step_options)
    for write in _read_writes(own):
        start.initial_attributes.add(key=write.key).value.CopyFrom(write.value)


def _fill_closed(closed: pb.FlowClosedHistoryEvent, own: list[Operation], unit: list[Operation]) -> None:
    run = _read_runs(own)[-1]
    closed.flow_status = run["status"]
    closed.error_type = run["error_type"]
    closed.error_message = run["error_message"]
    if closed.flow_status == pb.FLOW_STATUS_FAILED:
        for other in _read_runs(unit):
            if other["flow_id"] == run["flow_id"] and other["run_id"] != run["run_id"]:
                closed.continued_to_run_id = other["run_id"]


def _fill_effects(output: Any, own: list[Operation]) -> None:
    output.upsert_attributes.extend(_read_writes(own))
    output.publish_to_channel.extend(_read_messages(own))


def _fill_decision(decision: pb.StepDecision, own: list[Operation], execution_id: str) -> None:
    decision.next_steps.extend(_read_next_steps(own, execution_id))
    if decision.HasField("close_decision") and not decision.close_decision.HasField("close_input"):
        for table, _, columns in own:
            if table == Table.OUTPUT and columns is not None:
                output = pb.StepCompletionOutput.FromString(cast("bytes", columns[0]))
                decision.close_decision.close_input.CopyFrom(output.completed_step_output)


def _read_runs(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    return [
        dict(zip(_RUN_COLUMNS, columns, strict=True))
        for table, _, columns in operations
        if table == Table.RUN and columns is not None
    ]


def _read_writes(own: Iterable[Operation]) -> Iterator[pb.AttributeWrite]:
    for table, key, columns in own:
        if table not in {Table.ATTRIBUTE, Table.SECRET_ATTRIBUTE}:
            continue
        is_secret = table == Table.SECRET_ATTRIBUTE
        write = pb.AttributeWrite(key=cast("str", key[1]), is_hard_delete_on_null=is_secret)
        if columns is None:
            write.value.CopyFrom(_NULL)
        elif not is_secret:
            write.value.MergeFromString(cast("bytes", columns[0]))
        yield write


def _read_messages(own: Iterable[Operation]) -> Iterator[pb.ChannelMessage]:
    for table, key, columns in own:
        if table == Table.CHANNEL_MESSAGE and columns is not None:
            message = pb.ChannelMessage(channel_name=cast("str", key[1]), message_id=cast("str", columns[0]))
            message.value.MergeFromString(cast("bytes", columns[1]))
            yield message


def _read_next_steps(own: Iterable[Operation], origin: str) -> Iterator[pb.StepMovement]:
    for table, _, columns in own:
        if table == Table.STEP and columns is not None:
            movement = pb.StepMovement.FromString(cast("bytes", columns[4]))
            if movement.from_step_execution_id_internal_only == origin:
                yield movement


def _read_locals(own: Iterable[Operation], number: int) -> list[pb.KV]:
    for table, key, columns in own:
        if table == Table.STEP_PROGRESS and key[1] == number and columns is not None:
            return decode_locals(cast("bytes", columns[7]))
    return []
