"""What a Worker is sent: a task built from the state of a run.

Attributes are merged in as stored fragments, so their values are neither parsed nor copied one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.state import TIMEOUT_HANDLER, Attribute, Message, Run, StepExecution

_Request = pb.InvokeWaitForMethodRequest | pb.InvokeExecuteMethodRequest | pb.InvokeWorkerRPCRequest


def build_step_task(
    run: Run, execution: StepExecution, task_id: str, deadline: float
) -> pb.PollWorkerTaskResponse:
    """Build the task of one attempt of a Step method."""
    response = pb.PollWorkerTaskResponse()
    task = response.task
    task.task_id = task_id
    task.deadline.FromNanoseconds(int(deadline * 1e9))
    movement = execution.movement
    options = movement.step_options
    if execution.phase == "wait_for":
        wait_for = task.wait_for
        wait_for.step_type = movement.step_type
        wait_for.step_input.CopyFrom(movement.step_input)
        _fill_context(wait_for.context, run, execution)
        _fill_state(
            wait_for,
            run,
            options.wait_for_load_attribute_map_instances,
            options.wait_for_load_channel_names,
            options.wait_for_load_channel_map_instances,
        )
    else:
        execute = task.execute
        execute.step_type = movement.step_type
        if movement.step_type != TIMEOUT_HANDLER:
            execute.step_input.CopyFrom(movement.step_input)
        if execution.step_locals:
            execute.step_exe_locals.extend(execution.step_locals.values())
        if execution.results is not None:
            execute.condition_results.CopyFrom(execution.results)
        _fill_context(execute.context, run, execution)
        _fill_state(
            execute,
            run,
            options.execute_load_attribute_map_instances,
            options.execute_load_channel_names,
            options.execute_load_channel_map_instances,
        )
    return response


def build_rpc_task(
    run: Run, request: pb.InvokeRPCRequest, task_id: str, deadline: float
) -> pb.PollWorkerTaskResponse:
    """Build the task of an RPC."""
    response = pb.PollWorkerTaskResponse()
    task = response.task
    task.task_id = task_id
    task.deadline.FromNanoseconds(int(deadline * 1e9))
    rpc = task.rpc
    rpc.rpc_name = request.rpc_name
    rpc.input.CopyFrom(request.input)
    _fill_context(rpc.context, run, None)
    _fill_state(
        rpc,
        run,
        request.load_attribute_map_instances,
        request.load_channel_names,
        request.load_channel_map_instances,
    )
    return response


def build_channel_message(channel: str, message: Message) -> pb.ChannelMessage:
    """Build what a Worker or client sees of a waiting message."""
    return pb.ChannelMessage(channel_name=channel, value=message.value, message_id=message.message_id)


def _fill_context(context: pb.Context, run: Run, execution: StepExecution | None) -> None:
    context.flow_id = run.flow_id
    context.run_id = run.run_id
    context.flow_started_timestamp = int(run.started_at)
    context.run_attempt = run.run_attempt
    context.attempt = 1
    if execution is None:
        return
    context.step_execution_id = execution.execution_id
    context.attempt = execution.attempt
    context.first_attempt_timestamp = int(execution.first_attempt_at)
    context.from_step_execution_id = execution.origin
    if execution.movement.HasField("recovery_error_internal_only"):
        context.recovery_error.CopyFrom(execution.movement.recovery_error_internal_only)
    if execution.heartbeat is not None:
        context.last_heartbeat_value.CopyFrom(execution.heartbeat)


def _fill_state(
    request: _Request,
    run: Run,
    map_selectors: Sequence[str],
    channel_names: Sequence[str],
    channel_selectors: Sequence[str],
) -> None:
    request.flow_type = run.flow_type
    if run.plain_fragment is None:
        run.plain_fragment = b"".join(attribute.fragment for attribute in run.plain.values())
    if run.plain_fragment:
        request.MergeFromString(run.plain_fragment)
    if map_selectors:
        request.loaded_attribute_map_instances.extend(map_selectors)
        request.MergeFromString(
            b"".join(attribute.fragment for attribute in _select_instances(run, map_selectors))
        )
    for name, messages in run.channels.items():
        request.channel_infos[name].size = len(messages)
    if channel_names or channel_selectors:
        request.loaded_channel_names.extend(channel_names)
        request.loaded_channel_map_instances.extend(channel_selectors)
        for name, messages in run.channels.items():
            if name in channel_names or _is_selected(name, channel_selectors):
                request.loaded_channel_messages[name].messages.extend(
                    build_channel_message(name, message) for message in messages
                )


def _select_instances(run: Run, selectors: Sequence[str]) -> Iterable[Attribute]:
    # By key, because a map and one of its instances may both be selected and a key must come once.
    selected: dict[str, Attribute] = {}
    for selector in selectors:
        if selector.endswith("/"):
            selected.update(run.maps.get(selector, {}))
        else:
            attribute = run.find_attribute(selector)
            if attribute is not None:
                selected[selector] = attribute
    return selected.values()


def _is_selected(name: str, selectors: Sequence[str]) -> bool:
    return any(
        name == selector or (selector.endswith("/") and name.startswith(selector)) for selector in selectors
    )
