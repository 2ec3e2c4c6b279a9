from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import ServiceError
from dex_agents.engine.machine import (
    apply_attempt_failure,
    apply_attempt_started,
    apply_due_timers,
    apply_execute_result,
    apply_flow_timeout,
    apply_heartbeat,
    apply_rpc_result,
    apply_skip_timer,
    apply_stop,
    apply_wait_for_result,
)
from dex_agents.engine.retries import AttemptFailure
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.unit import Unit
from tests.unit.engine.building import (
    NOW,
    active,
    channel,
    decide,
    message,
    movement,
    new_run,
    new_unit,
    null,
    only,
    skipping,
    text,
    timer,
    wait,
    write,
)

FAILURE = AttemptFailure("it broke", "RuntimeError")


def execute(run: Run, result: pb.InvokeExecuteMethodResponse, execution: StepExecution | None = None) -> Unit:
    unit = new_unit()
    apply_execute_result(run, execution or only(run), result, unit, NOW)
    return unit


def wait_for(run: Run, result: pb.InvokeWaitForMethodResponse, now: float = NOW) -> Unit:
    unit = new_unit()
    apply_wait_for_result(run, only(run), result, unit, now)
    return unit


def publish(run: Run, *messages: pb.ChannelMessage) -> Unit:
    unit = new_unit()
    result = pb.InvokeWorkerRPCResponse(publish_to_channel=messages)
    apply_rpc_result(run, pb.InvokeRPCRequest(rpc_name="send"), result, unit, NOW, is_strict=False)
    return unit


def test_a_step_begins_in_wait_for_unless_it_skips_it() -> None:
    assert only(new_run("Ask")).phase == "wait_for"
    assert only(new_run("Ask", skipping())).phase == "execute"


def test_a_flow_without_a_start_step_is_open_and_idle() -> None:
    run = new_run()
    assert run.is_running
    assert not run.executions


def test_executions_are_numbered_by_type() -> None:
    run = new_run("Ask", skipping())
    execute(run, decide(movement("Work"), movement("Ask"), movement("Work")))
    assert active(run) == ["Work-1", "Ask-2", "Work-2"]
    assert {each.origin for each in run.executions.values()} == {"Ask-1"}


def test_a_wait_without_a_condition_goes_straight_to_execute() -> None:
    run = new_run("Ask")
    unit = wait_for(run, pb.InvokeWaitForMethodResponse())
    assert only(run).phase == "execute"
    assert unit.ready == [(run, only(run))]


def test_a_message_that_is_there_already_ends_the_wait_at_once() -> None:
    run = new_run("Ask")
    publish(run, message("inbox", "early"))
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=wait(channel("inbox"))))
    results = only(run).results
    assert results is not None
    assert [value.string_value for value in results.channel_results[0].values] == ["early"]
    assert "inbox" not in run.channels


def test_messages_are_consumed_in_the_order_they_were_published() -> None:
    run = new_run("Ask")
    condition = wait(channel("inbox", at_least=2, at_most=2))
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=condition))
    publish(run, message("inbox", "first"))
    assert only(run).phase == "waiting"
    publish(run, message("inbox", "second"), message("inbox", "third"))
    results = only(run).results
    assert results is not None
    assert [value.string_value for value in results.channel_results[0].values] == ["first", "second"]
    assert [waiting.value.string_value for waiting in run.channels["inbox"]] == ["third"]


def test_the_longest_waiting_execution_gets_the_only_message() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("Ask"), movement("Ask")))
    first, second = run.executions.values()
    for execution in (second, first):
        result = pb.InvokeWaitForMethodResponse(waiting_condition=wait(channel("inbox")))
        apply_wait_for_result(run, execution, result, new_unit(), NOW)
    publish(run, message("inbox", "one"))
    assert [first.phase, second.phase] == ["execute", "waiting"]


def test_a_timer_fires_at_its_instant_and_not_before() -> None:
    run = new_run("Nap")
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=wait(timer(10))), now=NOW + 0.5)
    apply_due_timers(run, only(run), new_unit(), NOW + 10.4)
    assert only(run).phase == "waiting"
    apply_due_timers(run, only(run), new_unit(), NOW + 10.5)
    results = only(run).results
    assert results is not None
    assert results.timer_results[0].condition_status == pb.CONDITION_STATUS_COMPLETED


def test_a_skipped_timer_reads_as_completed_and_cannot_be_skipped_twice() -> None:
    run = new_run("Nap")
    condition = wait(timer(10, "a"), timer(20, "b"))
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=condition))
    by_id = pb.SkipTimerRequest(step_execution_id="Nap-1", timer_condition_id="b")
    apply_skip_timer(run, by_id, new_unit(), NOW)
    with pytest.raises(ServiceError, match="over already"):
        apply_skip_timer(run, by_id, new_unit(), NOW)
    by_index = pb.SkipTimerRequest(step_execution_id="Nap-1", timer_condition_index=0)
    apply_skip_timer(run, by_index, new_unit(), NOW)
    assert only(run).phase == "execute"


@pytest.mark.parametrize(
    "request_",
    [
        pb.SkipTimerRequest(step_execution_id="Other-1", timer_condition_index=0),
        pb.SkipTimerRequest(step_execution_id="Nap-1", timer_condition_index=1),
        pb.SkipTimerRequest(step_execution_id="Nap-1", timer_condition_id="unknown"),
    ],
)
def test_a_timer_that_does_not_exist_cannot_be_skipped(request_: pb.SkipTimerRequest) -> None:
    run = new_run("Nap")
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=wait(timer(10, "a"))))
    with pytest.raises(ServiceError, match=r"timer_condition|step_execution_id"):
        apply_skip_timer(run, request_, new_unit(), NOW)


def test_graceful_completion_waits_for_every_other_path() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("A", skipping()), movement("B", skipping())))
    a, b = run.executions.values()
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE, output="a"), a)
    assert run.is_running
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE, output="b"), b)
    assert run.status == pb.FLOW_STATUS_COMPLETED
    assert [each.completed_step_output.string_value for each in run.outputs] == ["a", "b"]


def test_a_dead_end_after_a_graceful_request_completes_the_run() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("A", skipping()), movement("B", skipping())))
    a, b = run.executions.values()
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE), a)
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_DEAD_END), b)
    assert run.status == pb.FLOW_STATUS_COMPLETED
    assert run.outputs == []


def test_a_dead_end_alone_leaves_the_run_open() -> None:
    run = new_run("A", skipping())
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_DEAD_END))
    assert run.is_running


def test_forced_completion_cancels_everything_else() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("A", skipping()), movement("B")))
    a, b = run.executions.values()
    unit = execute(run, decide(close=pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE, output="done"), a)
    assert run.status == pb.FLOW_STATUS_COMPLETED
    assert unit.ended == [(run, b)]
    assert run.closed_at == NOW


def test_a_forced_failure_keeps_its_reason() -> None:
    run = new_run("A", skipping())
    execute(run, decide(close=pb.CLOSE_DECISION_TYPE_FORCE_FAIL, output="no budget"))
    assert (run.status, run.error_type, run.error_message) == (
        pb.FLOW_STATUS_FAILED,
        pb.FLOW_ERROR_TYPE_STEP_DECISION_FAILING_FLOW,
        "no budget",
    )


def test_conditional_completion_looks_at_what_this_result_published() -> None:
    run = new_run("A", skipping())
    result = decide(
        movement("A", skipping()),
        close=pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY,
        channels=["inbox"],
    )
    result.publish_to_channel.append(message("inbox", "more"))
    execute(run, result)
    assert active(run) == ["A-2"]
    del result.publish_to_channel[:]
    run.channels.clear()
    execute(run, result)
    assert run.status == pb.FLOW_STATUS_COMPLETED


def test_cancellation_spares_the_deciding_step_and_what_it_starts() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("A", skipping()), movement("A"), movement("B")))
    first, second, _ = run.executions.values()
    unit = execute(run, decide(movement("A"), cancel=["A"]), first)
    assert unit.ended == [(run, second)]
    assert active(run) == ["B-1", "A-3"]


def test_sibling_cancellation_stays_within_one_origin() -> None:
    run = new_run("Fork", skipping())
    execute(run, decide(movement("A", skipping()), movement("B"), movement("Other", skipping())))
    a, b, other = run.executions.values()
    execute(run, decide(movement("B")), other)
    unit = execute(run, decide(cancel_siblings=["B"]), a)
    assert unit.ended == [(run, b)]
    assert active(run) == ["B-2"]


def test_a_null_write_deletes_the_attribute() -> None:
    run = new_run("A", skipping())
    result = decide(movement("A", skipping()))
    result.upsert_attributes.extend([write("status", text("working")), write("map/1", text("x"))])
    execute(run, result)
    del result.upsert_attributes[:]
    result.upsert_attributes.append(write("status", null()))
    execute(run, result)
    assert run.find_attribute("status") is None
    kept = run.find_attribute("map/1")
    assert kept is not None
    assert kept.read_value() == text("x")


@pytest.mark.parametrize(
    "bad",
    [
        pb.InvokeExecuteMethodResponse(upsert_attributes=[write("a", text("1")), write("a", text("2"))]),
        pb.InvokeExecuteMethodResponse(upsert_attributes=[write("", text("1"))]),
        pb.InvokeExecuteMethodResponse(upsert_attributes=[pb.AttributeWrite(key="a")]),
        pb.InvokeExecuteMethodResponse(
            upsert_attributes=[write("a", pb.Value(internal_blob_id_for_obj_value="forged"))]
        ),
        pb.InvokeExecuteMethodResponse(upsert_attributes=[write("a", pb.Value(double_value=float("nan")))]),
        pb.InvokeExecuteMethodResponse(publish_to_channel=[pb.ChannelMessage(value=text("x"))]),
        decide(movement("a/b")),
    ],
)
def test_a_result_that_breaks_a_rule_changes_nothing(bad: pb.InvokeExecuteMethodResponse) -> None:
    run = new_run("A", skipping())
    result = decide(movement("B"))
    result.publish_to_channel.append(message("inbox", "x"))
    result.MergeFrom(bad)
    unit = new_unit()
    with pytest.raises(ServiceError):
        apply_execute_result(run, only(run), result, unit, NOW)
    assert unit.operations == []
    assert active(run) == ["A-1"]
    assert not run.plain
    assert not run.channels


def test_a_failed_attempt_is_planned_again_with_the_next_number() -> None:
    run = new_run("A", skipping())
    execution = only(run)
    apply_attempt_started(run, execution, new_unit())
    unit = new_unit()
    apply_attempt_failure(run, execution, FAILURE, unit, NOW + 3)
    assert (execution.attempt, execution.due_at, execution.is_started) == (2, NOW + 4, False)
    assert execution.first_attempt_at == NOW
    assert unit.timers == [(run, execution)]
    assert unit.ready == []


def test_the_last_failed_attempt_fails_the_flow_by_default() -> None:
    run = new_run(
        "A", pb.StepOptions(skip_wait_for=True, execute_retry_policy=pb.RetryPolicy(maximum_attempts=1))
    )
    apply_attempt_failure(run, only(run), FAILURE, new_unit(), NOW)
    assert (run.status, run.error_type, run.error_message) == (
        pb.FLOW_STATUS_FAILED,
        pb.FLOW_ERROR_TYPE_WORKER_API_FAIL,
        "it broke",
    )


def test_an_exhausted_execute_proceeds_with_the_same_input_and_the_error() -> None:
    options = pb.StepOptions(
        skip_wait_for=True,
        execute_retry_policy=pb.RetryPolicy(maximum_attempts=1),
        execute_failure_policy=pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP,
        execute_failure_proceed_step_type="Recover",
        execute_failure_proceed_step_options=skipping(),
    )
    run = new_run("A", options)
    apply_attempt_failure(run, only(run), FAILURE, new_unit(), NOW)
    recovery = only(run)
    assert (recovery.execution_id, recovery.origin, recovery.phase) == ("Recover-1", "A-1", "execute")
    assert recovery.movement.step_input == text("input")
    assert recovery.movement.recovery_error_internal_only == pb.RecoveryErrorInfo(
        detail="it broke", error_type="RuntimeError"
    )


def test_an_exhausted_wait_for_can_proceed_to_execute() -> None:
    options = pb.StepOptions(
        wait_for_retry_policy=pb.RetryPolicy(maximum_attempts=1),
        wait_for_failure_policy=pb.WAIT_FOR_METHOD_FAILURE_POLICY_PROCEED_ON_FAILURE,
    )
    run = new_run("A", options)
    apply_attempt_failure(run, only(run), FAILURE, new_unit(), NOW)
    execution = only(run)
    assert execution.phase == "execute"
    assert execution.results == pb.ConditionResults(wait_for_failed=True)
    assert execution.movement.recovery_error_internal_only.detail == "it broke"


def test_attempt_and_heartbeat_start_afresh_between_the_methods() -> None:
    run = new_run("A")
    execution = only(run)
    apply_attempt_failure(run, execution, FAILURE, new_unit(), NOW)
    apply_heartbeat(run, execution, pb.StepMethodHeartbeat(value=text("half")), new_unit())
    wait_for(run, pb.InvokeWaitForMethodResponse(), now=NOW + 9)
    assert (execution.attempt, execution.heartbeat, execution.first_attempt_at) == (1, None, NOW + 9)


def test_a_heartbeat_without_a_value_clears_the_last_one() -> None:
    run = new_run("A", skipping())
    execution = only(run)
    apply_heartbeat(run, execution, pb.StepMethodHeartbeat(value=text("half")), new_unit())
    apply_heartbeat(run, execution, pb.StepMethodHeartbeat(), new_unit())
    assert execution.heartbeat is None


def test_a_strict_rpc_refuses_to_delete_a_message_that_is_gone() -> None:
    run = new_run()
    publish(run, message("inbox", "a"))
    waiting = run.channels["inbox"][0]
    result = pb.InvokeWorkerRPCResponse(upsert_attributes=[write("status", text("x"))])
    result.delete_from_channel.add(channel_name="inbox", message_id=waiting.message_id)
    result.delete_from_channel.add(channel_name="inbox", message_id="gone")
    with pytest.raises(ServiceError, match="gone"):
        apply_rpc_result(
            run, pb.InvokeRPCRequest(rpc_name="withdraw"), result, new_unit(), NOW, is_strict=True
        )
    assert not run.plain
    assert list(run.channels["inbox"]) == [waiting]
    apply_rpc_result(run, pb.InvokeRPCRequest(rpc_name="withdraw"), result, new_unit(), NOW, is_strict=False)
    assert "inbox" not in run.channels


def test_message_ids_are_never_used_again() -> None:
    run = new_run("Ask")
    wait_for(run, pb.InvokeWaitForMethodResponse(waiting_condition=wait(channel("inbox"))))
    publish(run, message("inbox", "a"), message("inbox", "b"))
    second = run.channels["inbox"][0].message_id
    result = pb.InvokeWorkerRPCResponse()
    result.delete_from_channel.add(channel_name="inbox", message_id=second)
    apply_rpc_result(run, pb.InvokeRPCRequest(rpc_name="withdraw"), result, new_unit(), NOW, is_strict=True)
    publish(run, message("inbox", "c"))
    assert run.channels["inbox"][0].message_id > second


def test_an_rpc_on_a_closed_run_applies_nothing() -> None:
    run = new_run()
    apply_stop(run, pb.STOP_TYPE_CANCEL, "", new_unit(), NOW)
    with pytest.raises(ServiceError, match="not running"):
        publish(run, message("inbox", "a"))
    assert not run.channels


def test_steps_started_by_an_rpc_name_it_as_their_origin() -> None:
    run = new_run()
    result = pb.InvokeWorkerRPCResponse(step_decision=pb.StepDecision(next_steps=[movement("A")]))
    apply_rpc_result(run, pb.InvokeRPCRequest(rpc_name="begin"), result, new_unit(), NOW, is_strict=False)
    assert only(run).origin == "__rpc/begin"


@pytest.mark.parametrize(
    ("stop_type", "status"),
    [
        (pb.STOP_TYPE_UNSPECIFIED, pb.FLOW_STATUS_CANCELED),
        (pb.STOP_TYPE_CANCEL, pb.FLOW_STATUS_CANCELED),
        (pb.STOP_TYPE_TERMINATE, pb.FLOW_STATUS_TERMINATED),
        (pb.STOP_TYPE_FAIL, pb.FLOW_STATUS_FAILED),
    ],
)
def test_a_stop_closes_the_run_and_ends_its_executions(stop_type: pb.StopType, status: pb.FlowStatus) -> None:
    run = new_run("A")
    execution = only(run)
    unit = new_unit()
    apply_stop(run, stop_type, "enough", unit, NOW)
    assert (run.status, run.error_message, unit.ended) == (
        status,
        "enough",
        [(run, execution)],
    )


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (pb.FLOW_TIMEOUT_POLICY_FAIL, pb.FLOW_STATUS_FAILED),
        (pb.FLOW_TIMEOUT_POLICY_UNSPECIFIED, pb.FLOW_STATUS_FAILED),
        (pb.FLOW_TIMEOUT_POLICY_CANCEL, pb.FLOW_STATUS_CANCELED),
    ],
)
def test_a_soft_timeout_closes_the_run_as_its_policy_says(
    policy: pb.FlowTimeoutPolicy, status: pb.FlowStatus
) -> None:
    run = new_run("A")
    run.timeout_policy = policy
    apply_flow_timeout(run, new_unit(), NOW)
    assert run.status == status


def test_a_large_value_is_replaced_by_the_id_of_a_blob() -> None:
    run = new_run("A", skipping())
    large = "x" * 40_000
    result = decide(movement("B"))
    result.upsert_attributes.append(write("big", text(large)))
    result.publish_to_channel.append(message("inbox", large))
    unit = execute(run, result)
    stored = run.find_attribute("big")
    assert stored is not None
    assert stored.read_value().internal_blob_id_for_string_value == "s00c0ffee" + "0" * 15 + "1"
    assert [(blob.kind, blob.payload) for blob in unit.blobs] == [("string", large.encode())] * 2


def test_a_hard_delete_value_is_never_a_blob() -> None:
    run = new_run("A", skipping())
    result = decide(movement("B"))
    secret = write("secret", text("x" * 40_000))
    secret.is_hard_delete_on_null = True
    result.upsert_attributes.append(secret)
    assert execute(run, result).blobs == []
    assert run.plain["secret"].is_secret
