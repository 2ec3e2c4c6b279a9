"""Wait conditions: which messages a waiting execution takes, and what it is told about them.

==================  =============================================================================
condition           candidates, in order
==================  =============================================================================
all completed       one, made of every Timer and Channel condition
any completed       one for each Timer, then one for each Channel condition, as declared
any combination     one for each declared combination
==================  =============================================================================

The first candidate that holds wins, and only its Channel conditions take messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument, unimplemented
from dex_agents.engine.state import Message, StepExecution, TimerState


@dataclass(frozen=True, slots=True)
class _Candidate:
    timers: Sequence[int]
    channels: Sequence[int]


def validate_condition(condition: pb.WaitingCondition) -> None:
    """Require a condition that this engine can evaluate.

    Raises:
        ServiceError: It has SubFlows, a negative bound, or a combination that names no declared condition.
    """
    if condition.sub_flow_conditions:
        raise unimplemented("PollWorkerTask", "SubFlow conditions")
    for channel in condition.channel_conditions:
        if channel.at_least < 0 or channel.at_most < 0:
            raise invalid_argument("channel_conditions", "bounds must not be negative")
        if (
            channel.HasField("at_least")
            and channel.HasField("at_most")
            and channel.at_least > channel.at_most
        ):
            raise invalid_argument("channel_conditions", "at_least must not be above at_most")
    for timer in condition.timer_conditions:
        if timer.duration_seconds < 0:
            raise invalid_argument("timer_conditions", "duration_seconds must not be negative")
    known = {timer.condition_id for timer in condition.timer_conditions}
    known.update(channel.condition_id for channel in condition.channel_conditions)
    for combination in condition.condition_combinations:
        unknown = [each for each in combination.condition_ids if each not in known]
        if unknown:
            raise invalid_argument("condition_combinations", f"no condition has the ID {unknown[0]!r}")


def build_timers(condition: pb.WaitingCondition, now: float) -> list[TimerState]:
    """Return the Timers of a condition that begins to wait at `now`."""
    return [TimerState(now + each.duration_seconds) for each in condition.timer_conditions]


def plan_wait(
    condition: pb.WaitingCondition, timers: Sequence[TimerState], channels: Mapping[str, Sized]
) -> dict[int, int] | None:
    """Decide whether a wait is over.

    Args:
        condition: What is waited for.
        timers: State of each declared Timer.
        channels: Waiting messages by Channel name.

    Returns:
        How many messages each Channel condition of the winning candidate takes, by condition index, or `None`
        while no candidate holds.
    """
    for candidate in _iterate_candidates(condition):
        if all(timers[index].is_over for index in candidate.timers):
            taken = _reserve(condition, candidate.channels, channels)
            if taken is not None:
                return taken
    return None


def build_results(execution: StepExecution, taken: Mapping[int, Sequence[Message]]) -> pb.ConditionResults:
    """Return what `execute` is told: one entry for every declared Timer and Channel condition, in order.

    Args:
        execution: The execution whose wait is over.
        taken: Messages by index of the Channel condition, for the winning candidate only.
    """
    condition = execution.condition
    results = pb.ConditionResults()
    if condition is None:
        return results
    for timer, state in zip(condition.timer_conditions, execution.timers, strict=True):
        results.timer_results.add(condition_id=timer.condition_id, condition_status=_status(state.is_over))
    for index, channel in enumerate(condition.channel_conditions):
        entry = results.channel_results.add(
            condition_id=channel.condition_id,
            channel_name=channel.channel_name,
            condition_status=_status(index in taken),
        )
        entry.values.extend(message.value for message in taken.get(index, ()))
    return results


def _status(is_completed: bool) -> pb.ConditionStatus:
    return pb.CONDITION_STATUS_COMPLETED if is_completed else pb.CONDITION_STATUS_WAITING


def _iterate_candidates(condition: pb.WaitingCondition) -> Iterator[_Candidate]:
    timers, channels = condition.timer_conditions, condition.channel_conditions
    kind = condition.waiting_condition_type
    if kind == pb.WAITING_CONDITION_TYPE_ANY_COMPLETED:
        for index in range(len(timers)):
            yield _Candidate((index,), ())
        for index in range(len(channels)):
            yield _Candidate((), (index,))
    elif kind == pb.WAITING_CONDITION_TYPE_ANY_COMBINATION_COMPLETED:
        for combination in condition.condition_combinations:
            wanted = set(combination.condition_ids)
            yield _Candidate(
                [index for index, timer in enumerate(timers) if timer.condition_id in wanted],
                [index for index, channel in enumerate(channels) if channel.condition_id in wanted],
            )
    else:
        yield _Candidate(range(len(timers)), range(len(channels)))


def _reserve(
    condition: pb.WaitingCondition, wanted: Sequence[int], channels: Mapping[str, Sized]
) -> dict[int, int] | None:
    left: dict[str, int] = {}
    taken: dict[int, int] = {}
    for index in wanted:
        channel = condition.channel_conditions[index]
        name = channel.channel_name
        available = left.get(name)
        if available is None:
            available = len(channels[name]) if name in channels else 0
        minimum = _minimum(channel)
        if available < minimum:
            return None
        left[name] = available - minimum
        taken[index] = minimum
    for index in wanted:
        channel = condition.channel_conditions[index]
        name = channel.channel_name
        maximum = _maximum(channel)
        extra = left[name] if maximum is None else min(left[name], maximum - taken[index])
        taken[index] += extra
        left[name] -= extra
    return taken


def _minimum(channel: pb.ChannelCondition) -> int:
    if channel.HasField("at_least"):
        return channel.at_least
    return 0 if channel.HasField("at_most") else 1


def _maximum(channel: pb.ChannelCondition) -> int | None:
    if channel.HasField("at_most"):
        return channel.at_most
    return None if channel.HasField("at_least") else 1
