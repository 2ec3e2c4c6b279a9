"""The Flow retry policy: a run that failed is followed by another one of the same start.

===================================================  ====================================================
a run closes                                         what follows
===================================================  ====================================================
failed, with an attempt and time left                a new run, in the same unit; its start Step is due
                                                     after the delay
failed, with none left                               nothing
failed because a client stopped it                   nothing: whoever stops a Flow does not want it again
completed, canceled, terminated                      nothing
===================================================  ====================================================

The next run has the input and the initial Attributes of the start, and nothing else of the run before it. A
hard-delete Attribute is the exception: no second copy of one is kept, so the next run begins with the value
that it had at the end of the last run, and without one that was deleted.
"""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument
from dex_agents.engine.retries import plan_retry
from dex_agents.engine.state import Run, RunChain
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import read_blob_id


def validate_flow_retry(policy: pb.FlowRetryPolicy) -> None:
    """Require a policy that can be followed.

    Raises:
        ServiceError: A field is negative, or the delay would shrink.
    """
    for field in ("initial_interval_seconds", "maximum_interval_seconds", "maximum_attempts"):
        if getattr(policy, field) < 0:
            raise invalid_argument(f"retry_policy.{field}", "must not be negative")
    if policy.backoff_coefficient and not policy.backoff_coefficient >= 1:
        raise invalid_argument("retry_policy.backoff_coefficient", "must be 0 or at least 1")


def open_chain(run: Run, request: pb.StartFlowRequest, unit: Unit) -> None:
    """Remember the start of a first run for those that may follow it."""
    kept = pb.StartFlowRequest()
    kept.CopyFrom(request)
    if kept.HasField("step_input"):
        kept.step_input.CopyFrom(unit.store_value(request.step_input))
    for write in kept.flow_start_options.attributes:
        if write.is_hard_delete_on_null:
            write.ClearField("value")
        elif not write.index_config.enable:
            # What is searched of a value is read from the value itself, so an indexed one stays.
            write.value.CopyFrom(unit.store_value(write.value))
    unit.put_chain(run, RunChain(1, run.run_id, run.started_at, kept))


def plan_flow_retry(run: Run, chain: RunChain, now: float) -> float | None:
    """Return the delay in seconds before the run that follows a closed one, or `None` when none does.

    The wire has no total duration, so the SDK's default of four hours bounds the time from the first start to
    the last.
    """
    if (
        chain.request is None
        or run.status != pb.FLOW_STATUS_FAILED
        or run.error_type == pb.FLOW_ERROR_TYPE_CLIENT_API_FAILING_FLOW
    ):
        return None
    policy = chain.request.flow_start_options.retry_policy
    return plan_retry(
        pb.RetryPolicy(
            initial_interval_seconds=policy.initial_interval_seconds,
            backoff_coefficient=policy.backoff_coefficient,
            maximum_interval_seconds=policy.maximum_interval_seconds,
            maximum_attempts=policy.maximum_attempts,
        ),
        chain.attempt,
        chain.begun_at,
        now,
        0,
    )


def build_next_request(run: Run, kept: pb.StartFlowRequest, unit: Unit) -> pb.StartFlowRequest:
    """Return the start of the run that follows a failed one, with values of its own."""
    request = pb.StartFlowRequest()
    request.CopyFrom(kept)
    if request.HasField("step_input"):
        request.step_input.CopyFrom(unit.copy_value(kept.step_input))
    attributes = request.flow_start_options.attributes
    del attributes[:]
    for write in kept.flow_start_options.attributes:
        own = pb.AttributeWrite()
        own.CopyFrom(write)
        if write.is_hard_delete_on_null:
            present = run.find_attribute(write.key)
            if present is None or not present.is_secret:
                continue
            own.value.CopyFrom(present.read_value())
        else:
            own.value.CopyFrom(unit.copy_value(write.value))
        attributes.append(own)
    return request


def pass_chain_on(run: Run, chain: RunChain, successor: Run, unit: Unit) -> None:
    """Hand the start over from a failed run to the one that follows it."""
    following = RunChain(chain.attempt + 1, chain.first_run_id, chain.begun_at, chain.request)
    unit.put_chain(successor, following)
    unit.put_chain(run, RunChain(chain.attempt, chain.first_run_id, chain.begun_at, None))


def drop_request(run: Run, chain: RunChain, unit: Unit) -> None:
    """Forget the start, whose values nothing refers to any more: no run follows."""
    if chain.request is None:
        return
    unit.discard(read_blob_id(chain.request.step_input))
    for write in chain.request.flow_start_options.attributes:
        unit.discard(read_blob_id(write.value))
    unit.put_chain(run, RunChain(chain.attempt, chain.first_run_id, chain.begun_at, None))
