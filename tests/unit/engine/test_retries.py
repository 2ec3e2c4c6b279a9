from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.retries import plan_retry

FIRST = 1000.0


@pytest.mark.parametrize(
    ("attempt", "delay"), [(1, 1), (2, 2), (3, 4), (7, 64), (8, 100), (50, 100), (5000, 100)]
)
def test_default_delays_double_up_to_a_hundred_seconds(attempt: int, delay: int) -> None:
    assert plan_retry(pb.RetryPolicy(), attempt, FIRST, FIRST, 0) == delay


def test_a_policy_sets_its_own_interval_and_coefficient() -> None:
    policy = pb.RetryPolicy(initial_interval_seconds=3, backoff_coefficient=1.5, maximum_interval_seconds=10)
    assert [plan_retry(policy, attempt, FIRST, FIRST, 0) for attempt in (1, 2, 3, 4)] == [3, 4.5, 6.75, 10]


def test_no_attempt_follows_the_last_one() -> None:
    policy = pb.RetryPolicy(maximum_attempts=3)
    assert plan_retry(policy, 2, FIRST, FIRST, 0) == 2
    assert plan_retry(policy, 3, FIRST, FIRST, 0) is None
    assert plan_retry(pb.RetryPolicy(maximum_attempts=1), 1, FIRST, FIRST, 0) is None


def test_no_attempt_begins_after_the_total_duration() -> None:
    policy = pb.RetryPolicy(total_duration_seconds=10)
    assert plan_retry(policy, 1, FIRST, FIRST + 9, 0) == 1
    assert plan_retry(policy, 1, FIRST, FIRST + 9.1, 0) is None
    assert plan_retry(pb.RetryPolicy(), 1, FIRST, FIRST + 4 * 3600, 0) is None


def test_a_requested_delay_replaces_the_computed_one_but_no_limit() -> None:
    policy = pb.RetryPolicy(maximum_attempts=2, maximum_interval_seconds=5, total_duration_seconds=30)
    assert plan_retry(policy, 1, FIRST, FIRST, 20) == 20
    assert plan_retry(policy, 1, FIRST, FIRST, 31) is None
    assert plan_retry(policy, 2, FIRST, FIRST, 1) is None
