"""When a failed attempt is repeated, and when it is not."""

from __future__ import annotations

from dataclasses import dataclass

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.state import StepExecution

DEFAULT_INITIAL_INTERVAL_SECONDS = 1
DEFAULT_BACKOFF_COEFFICIENT = 2.0
DEFAULT_MAXIMUM_INTERVAL_SECONDS = 100
DEFAULT_TOTAL_DURATION_SECONDS = 4 * 3600
DEFAULT_METHOD_TIMEOUT_SECONDS = 2 * 3600
DEFAULT_HEARTBEAT_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why an attempt ended without a result.

    Attributes:
        detail: What happened, in words.
        error_type: Class of the error, such as `RuntimeError` or `WorkerDisconnected`.
        retry_after_seconds: Delay the handler asked for, or 0.
    """

    detail: str
    error_type: str
    retry_after_seconds: int = 0


def plan_retry(
    policy: pb.RetryPolicy, attempt: int, first_attempt_at: float, now: float, retry_after_seconds: int
) -> float | None:
    """Return the delay in seconds before the next attempt, or `None` when there is none.

    Args:
        policy: The policy of the method; zero fields mean the defaults.
        attempt: Number of the attempt that failed, from 1.
        first_attempt_at: When the first attempt became due.
        now: The current time.
        retry_after_seconds: A delay that replaces the computed one but not the limits, or 0.
    """
    if policy.maximum_attempts and attempt >= policy.maximum_attempts:
        return None
    if retry_after_seconds > 0:
        delay = float(retry_after_seconds)
    else:
        initial = policy.initial_interval_seconds or DEFAULT_INITIAL_INTERVAL_SECONDS
        coefficient = policy.backoff_coefficient or DEFAULT_BACKOFF_COEFFICIENT
        maximum = policy.maximum_interval_seconds or DEFAULT_MAXIMUM_INTERVAL_SECONDS
        try:
            delay = min(initial * coefficient ** (attempt - 1), float(maximum))
        except OverflowError:
            delay = float(maximum)
    total = policy.total_duration_seconds or DEFAULT_TOTAL_DURATION_SECONDS
    return None if now + delay - first_attempt_at > total else delay


def read_retry_policy(execution: StepExecution) -> pb.RetryPolicy:
    """Return the policy of the method that an execution is in."""
    options = execution.movement.step_options
    return options.wait_for_retry_policy if execution.phase == "wait_for" else options.execute_retry_policy


def read_method_timeout(execution: StepExecution) -> int:
    """Return the time limit of one attempt of the present method, in seconds."""
    options = execution.movement.step_options
    seconds = (
        options.wait_for_timeout_seconds if execution.phase == "wait_for" else options.execute_timeout_seconds
    )
    return seconds or DEFAULT_METHOD_TIMEOUT_SECONDS


def read_heartbeat_timeout(execution: StepExecution) -> int:
    """Return the longest silence of a running attempt, in seconds."""
    return execution.movement.step_options.heartbeat_timeout_seconds or DEFAULT_HEARTBEAT_TIMEOUT_SECONDS


def read_lock_keys(execution: StepExecution) -> frozenset[str]:
    """Return the Attribute keys that an attempt of the present method holds."""
    options = execution.movement.step_options
    return frozenset(
        options.wait_for_lock_attribute_keys
        if execution.phase == "wait_for"
        else options.execute_lock_attribute_keys
    )
