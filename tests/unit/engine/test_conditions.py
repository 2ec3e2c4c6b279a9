from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.conditions import plan_wait, validate_condition
from dex_agents.engine.failures import ServiceError
from dex_agents.engine.state import TimerState
from tests.unit.engine.building import channel, timer, wait

ANY = pb.WAITING_CONDITION_TYPE_ANY_COMPLETED
COMBINATION = pb.WAITING_CONDITION_TYPE_ANY_COMBINATION_COMPLETED


def fired() -> TimerState:
    return TimerState(0.0, pb.INTERNAL_TIMER_STATUS_FIRED)


def pending() -> TimerState:
    return TimerState(0.0)


def test_a_channel_without_bounds_takes_exactly_one_message() -> None:
    condition = wait(channel("inbox"))
    assert plan_wait(condition, [], {}) is None
    assert plan_wait(condition, [], {"inbox": "abc"}) == {0: 1}


@pytest.mark.parametrize(
    ("at_least", "at_most", "waiting", "taken"),
    [
        (None, 2, 0, 0),
        (None, 2, 5, 2),
        (2, None, 1, None),
        (2, None, 5, 5),
        (2, 3, 1, None),
        (2, 3, 2, 2),
        (2, 3, 5, 3),
        (0, 0, 5, 0),
    ],
)
def test_bounds_decide_how_many_messages_are_taken(
    at_least: int | None, at_most: int | None, waiting: int, taken: int | None
) -> None:
    condition = wait(channel("inbox", at_least=at_least, at_most=at_most))
    plan = plan_wait(condition, [], {"inbox": "x" * waiting})
    assert plan == (None if taken is None else {0: taken})


def test_all_conditions_must_hold_together() -> None:
    condition = wait(timer(5), channel("a"), channel("b"))
    assert plan_wait(condition, [fired()], {"a": "x"}) is None
    assert plan_wait(condition, [pending()], {"a": "x", "b": "x"}) is None
    assert plan_wait(condition, [fired()], {"a": "x", "b": "x"}) == {0: 1, 1: 1}


def test_a_timer_wins_over_a_channel_when_any_may() -> None:
    condition = wait(timer(5), channel("a"), kind=ANY)
    assert plan_wait(condition, [fired()], {"a": "x"}) == {}
    assert plan_wait(condition, [pending()], {"a": "x"}) == {0: 1}


def test_the_first_declared_channel_wins_and_the_others_take_nothing() -> None:
    condition = wait(channel("a"), channel("b"), kind=ANY)
    assert plan_wait(condition, [], {"a": "x", "b": "x"}) == {0: 1}
    assert plan_wait(condition, [], {"b": "x"}) == {1: 1}


def test_two_conditions_on_one_channel_reserve_their_minimums_before_sharing_the_rest() -> None:
    condition = wait(
        channel("a", at_least=1, at_most=3, condition_id="1"), channel("a", at_least=2, condition_id="2")
    )
    assert plan_wait(condition, [], {"a": "xx"}) is None
    assert plan_wait(condition, [], {"a": "xxx"}) == {0: 1, 1: 2}
    assert plan_wait(condition, [], {"a": "x" * 9}) == {0: 3, 1: 6}


def test_the_first_combination_that_holds_wins() -> None:
    condition = wait(
        timer(5, "t"), channel("a"), channel("b"), kind=COMBINATION, combinations=[("a", "b"), ("t", "a")]
    )
    assert plan_wait(condition, [pending()], {"a": "x"}) is None
    assert plan_wait(condition, [fired()], {"a": "x"}) == {0: 1}
    assert plan_wait(condition, [fired()], {"a": "x", "b": "x"}) == {0: 1, 1: 1}


def test_a_skipped_timer_is_over() -> None:
    skipped = TimerState(0.0, pb.INTERNAL_TIMER_STATUS_SKIPPED)
    assert plan_wait(wait(timer(5)), [skipped], {}) == {}


def test_a_condition_without_parts_holds_at_once() -> None:
    assert plan_wait(wait(), [], {}) == {}


@pytest.mark.parametrize(
    "condition",
    [
        wait(channel("a", at_least=-1)),
        wait(channel("a", at_least=3, at_most=2)),
        wait(timer(-1)),
        wait(channel("a"), kind=COMBINATION, combinations=[("a", "unknown")]),
    ],
)
def test_an_impossible_condition_is_refused(condition: pb.WaitingCondition) -> None:
    with pytest.raises(ServiceError, match=r"conditions|combinations"):
        validate_condition(condition)


def test_a_subflow_condition_is_refused_by_name() -> None:
    condition = pb.WaitingCondition(sub_flow_conditions=[pb.SubFlowCondition(sub_flow_type="Child")])
    with pytest.raises(ServiceError, match="SubFlow"):
        validate_condition(condition)
