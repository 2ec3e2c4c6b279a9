from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.machine import apply_attempt_started, apply_wait_for_result
from dex_agents.engine.recovery import plan_recovery
from dex_agents.engine.state import Run
from dex_agents.engine.unit import Unit
from dex_agents.engine.writes import apply_publications
from tests.unit.engine.building import NOW, channel, message, new_run, new_unit, only, timer, wait

ONCE = pb.StepOptions(skip_wait_for=True, execute_retry_policy=pb.RetryPolicy(maximum_attempts=1))
TWICE = pb.StepOptions(skip_wait_for=True, execute_retry_policy=pb.RetryPolicy(maximum_attempts=2))
UNLIMITED = pb.StepOptions(skip_wait_for=True)


def recover(run: Run, now: float = NOW + 5) -> Unit:
    unit = new_unit()
    plan_recovery(run, unit, now)
    return unit


def test_a_marked_single_attempt_counts_as_made() -> None:
    run = new_run("Charge", ONCE)
    apply_attempt_started(run, only(run), new_unit())
    recover(run)
    assert run.status == pb.FLOW_STATUS_FAILED
    assert run.error_message == "the engine ended while the attempt was running"


def test_an_unmarked_single_attempt_is_sent_with_the_same_number() -> None:
    run = new_run("Charge", ONCE)
    unit = recover(run)
    assert unit.ready == [(run, only(run))]
    assert only(run).attempt == 1


def test_a_marked_attempt_with_another_one_left_is_retried_after_its_delay() -> None:
    run = new_run("Charge", TWICE)
    apply_attempt_started(run, only(run), new_unit())
    unit = recover(run)
    assert (only(run).attempt, only(run).due_at, only(run).is_started) == (2, NOW + 6, False)
    assert (unit.ready, unit.timers) == ([], [(run, only(run))])


def test_an_unlimited_attempt_that_may_have_run_is_sent_as_the_next() -> None:
    run = new_run("Work", UNLIMITED)
    unit = recover(run)
    assert unit.ready == [(run, only(run))]
    assert only(run).attempt == 2


def test_an_attempt_that_is_due_later_keeps_its_number() -> None:
    run = new_run("Work", UNLIMITED)
    only(run).due_at = NOW + 60
    recover(run)
    assert only(run).attempt == 1


def test_a_wait_goes_on_with_its_timers_and_sees_what_is_there() -> None:
    run = new_run("Listen")
    condition = wait(timer(9), channel("inbox"), kind=pb.WAITING_CONDITION_TYPE_ANY_COMPLETED)
    result = pb.InvokeWaitForMethodResponse(waiting_condition=condition)
    apply_wait_for_result(run, only(run), result, new_unit(), NOW)
    assert recover(run).timers == [(run, only(run))]
    assert only(run).phase == "waiting"
    apply_publications(run, [message("inbox", "x")], new_unit())
    recover(run)
    assert only(run).phase == "execute"
