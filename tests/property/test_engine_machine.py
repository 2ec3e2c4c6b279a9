"""Any interleaving of events on a run keeps the promises of the engine's state machine.

The run is also put away and read back at any moment, so the tables hold what memory does.
"""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path

import pytest
from dex.dexpb import dex_pb2 as pb
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dex_agents.engine.failures import ServiceError
from dex_agents.engine.machine import (
    apply_attempt_failure,
    apply_attempt_started,
    apply_channel_change,
    apply_due_timers,
    apply_execute_result,
    apply_flow_timeout,
    apply_rpc_result,
    apply_stop,
    apply_wait_for_result,
    start_run,
)
from dex_agents.engine.recovery import plan_recovery
from dex_agents.engine.retries import AttemptFailure, read_retry_policy
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.store.reader import StoreReader
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers
from tests.unit.engine.building import NOW, channel, decide, message, timer, wait

CHANNELS = ("a", "b")
MAXIMA = (0, 1, 3)

channels = st.sampled_from(CHANNELS)
conditions = st.one_of(
    st.builds(
        channel,
        channels,
        at_least=st.one_of(st.none(), st.integers(0, 2)),
        at_most=st.one_of(st.none(), st.integers(2, 3)),
    ),
    st.builds(timer, st.sampled_from([0, 5, 100])),
)


@st.composite
def waits(draw: st.DrawFn) -> pb.WaitingCondition:
    kinds = [pb.WAITING_CONDITION_TYPE_ALL_COMPLETED, pb.WAITING_CONDITION_TYPE_ANY_COMPLETED]
    parts = draw(st.lists(conditions, min_size=1, max_size=3))
    return wait(*parts, kind=draw(st.sampled_from(kinds)))


def build_step(maximum: int, *, proceeds: bool) -> pb.StepMovement:
    policy = pb.RetryPolicy(maximum_attempts=maximum)
    options = pb.StepOptions(wait_for_retry_policy=policy, execute_retry_policy=policy)
    if proceeds:
        options.execute_failure_policy = pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP
        options.execute_failure_proceed_step_type = "Recover"
        options.wait_for_failure_policy = pb.WAIT_FOR_METHOD_FAILURE_POLICY_PROCEED_ON_FAILURE
    return pb.StepMovement(step_type="Work", step_input=pb.Value(int_value=maximum), step_options=options)


@st.composite
def steps(draw: st.DrawFn) -> pb.StepMovement:
    return build_step(draw(st.sampled_from(MAXIMA)), proceeds=draw(st.booleans()))


closes = st.sampled_from(
    [
        None,
        None,
        None,
        pb.CLOSE_DECISION_TYPE_DEAD_END,
        pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE,
        pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY,
        pb.CLOSE_DECISION_TYPE_FORCE_FAIL,
    ]
)


class MachineUnderAnyInterleaving(RuleBasedStateMachine):
    """One run, its store, and what became of every message and attempt."""

    @initialize(step=steps())
    def begin(self, step: pb.StepMovement) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = str(Path(self._folder.name) / "engine.db")
        self._writer = StoreWriter(self._path, "normal")
        self._numbers = BlobNumbers(self._writer.database_id, 0)
        self.now = NOW
        self.published = 0
        self.waiting: dict[str, deque[int]] = {name: deque() for name in CHANNELS}
        self.consumed: list[int] = []
        self.made: dict[tuple[str, str], int] = {}
        self.closed_as: int | None = None
        self.run_ = Run(
            number=1,
            run_id="0123456789abcdef",
            flow_id="flow",
            flow_type="Flow",
            request_id="",
            started_at=NOW,
            config=pb.FlowConfig(),
        )
        request = pb.StartFlowRequest(
            start_step_type="Work", step_input=step.step_input, step_options=step.step_options
        )
        unit = self._open()
        start_run(self.run_, request, unit, self.now)
        self._commit(unit)

    def teardown(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.close()
            self._folder.cleanup()

    # What may happen

    @precondition(lambda self: self._pick("wait_for") is not None)
    @rule(condition=st.one_of(st.none(), waits()), publish=st.lists(channels, max_size=2))
    def wait_for_returns(self, condition: pb.WaitingCondition | None, publish: list[str]) -> None:
        execution = self._attempt("wait_for")
        result = pb.InvokeWaitForMethodResponse(waiting_condition=condition)
        result.publish_to_channel.extend(self._messages(publish))
        unit = self._open()
        apply_wait_for_result(self.run_, execution, result, unit, self.now)
        self._commit(unit)

    @precondition(lambda self: self._pick("execute") is not None)
    @rule(following=st.lists(steps(), max_size=2), close=closes, publish=st.lists(channels, max_size=2))
    def execute_returns(
        self, following: list[pb.StepMovement], close: pb.CloseDecisionType | None, publish: list[str]
    ) -> None:
        execution = self._attempt("execute")
        result = decide(*following, close=close, channels=CHANNELS)
        result.publish_to_channel.extend(self._messages(publish))
        unit = self._open()
        apply_execute_result(self.run_, execution, result, unit, self.now)
        self._commit(unit)

    @precondition(lambda self: self._pick("wait_for", "execute") is not None)
    @rule(late=st.integers(0, 20))
    def an_attempt_fails(self, late: int) -> None:
        execution = self._attempt("wait_for", "execute")
        self.now += late
        unit = self._open()
        apply_attempt_failure(self.run_, execution, AttemptFailure("broken", "E"), unit, self.now)
        self._commit(unit)

    @precondition(lambda self: self.run_.is_running)
    @rule(names=st.lists(channels, min_size=1, max_size=3))
    def somebody_publishes(self, names: list[str]) -> None:
        unit = self._open()
        apply_channel_change(self.run_, self._messages(names), (), unit, self.now)
        self._commit(unit)

    @precondition(lambda self: self.run_.is_running)
    @rule(name=channels, place=st.integers(0, 5))
    def somebody_deletes(self, name: str, place: int) -> None:
        queue = self.run_.channels.get(name, deque())
        if place >= len(queue):
            return
        deletion = pb.ChannelMessageDeletion(channel_name=name, message_id=queue[place].message_id)
        del self.waiting[name][place]
        unit = self._open()
        apply_channel_change(self.run_, (), [deletion], unit, self.now)
        self._commit(unit)

    @rule(following=st.lists(steps(), min_size=1, max_size=2))
    def an_rpc_starts_steps(self, following: list[pb.StepMovement]) -> None:
        result = pb.InvokeWorkerRPCResponse(step_decision=pb.StepDecision(next_steps=following))
        unit = self._open()
        if not self.run_.is_running:
            with pytest.raises(ServiceError):
                apply_rpc_result(
                    self.run_, pb.InvokeRPCRequest(rpc_name="x"), result, unit, self.now, is_strict=False
                )
            assert unit.operations == []
            return
        apply_rpc_result(
            self.run_, pb.InvokeRPCRequest(rpc_name="x"), result, unit, self.now, is_strict=False
        )
        self._commit(unit)

    @rule(seconds=st.integers(0, 60))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        for execution in list(self.run_.executions.values()):
            if execution.phase == "waiting":
                unit = self._open()
                apply_due_timers(self.run_, execution, unit, self.now)
                self._commit(unit)

    @precondition(lambda self: self.run_.is_running)
    @rule(is_timeout=st.booleans(), chance=st.integers(0, 5))
    def somebody_ends_it(self, is_timeout: bool, chance: int) -> None:
        if chance:
            return
        unit = self._open()
        if is_timeout:
            apply_flow_timeout(self.run_, unit, self.now)
        else:
            apply_stop(self.run_, pb.STOP_TYPE_CANCEL, "enough", unit, self.now)
        self._commit(unit)

    @rule()
    def the_engine_restarts(self) -> None:
        """Read the run back, as after a kill: what memory held and the disk did not is gone."""
        self._writer.fold()
        reader = StoreReader(self._path)
        (read,) = reader.load_runs([1])
        reader.close()
        self._require_equal(read)
        self.run_ = read
        if read.is_running:
            unit = self._open()
            plan_recovery(read, unit, self.now)
            self._commit(unit)

    @precondition(lambda self: self._pick("wait_for", "execute") is not None)
    @rule()
    def the_engine_dies_in_the_middle_of_an_attempt(self) -> None:
        self._attempt("wait_for", "execute")
        self.the_engine_restarts()

    # What must hold

    @pytest.mark.requirement("engine-interleavings")
    @invariant()
    def a_run_closes_once_and_nothing_is_active_behind_it(self) -> None:
        if self.closed_as is not None:
            assert self.run_.status == self.closed_as
        if not self.run_.is_running:
            self.closed_as = self.run_.status
            assert not self.run_.executions

    @pytest.mark.requirement("engine-interleavings")
    @invariant()
    def every_message_waits_or_was_consumed_once(self) -> None:
        for name in CHANNELS:
            found = [each.value.int_value for each in self.run_.channels.get(name, ())]
            assert found == list(self.waiting[name])
        assert len(self.consumed) == len(set(self.consumed))

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        for execution in self.run_.executions.values():
            assert (execution.phase == "waiting") == (execution.condition is not None)

    @pytest.mark.requirement("engine-interleavings")
    @invariant()
    def attempts_stay_below_their_maximum(self) -> None:
        for execution in self.run_.executions.values():
            maximum = read_retry_policy(execution).maximum_attempts
            assert execution.attempt >= 1
            assert not maximum or execution.attempt <= maximum
            # Nothing is under way between two events here, so no attempt counts as begun.
            assert not execution.is_started

    def _open(self) -> Unit:
        self._before = {number: each.phase for number, each in self.run_.executions.items()}
        return Unit(self._numbers, {}, self.now)

    def _commit(self, unit: Unit) -> None:
        if not unit.operations:
            return
        self._writer.append([(self._writer.last_sequence + 1, unit.operations)], unit.blobs)
        self._note_consumed(unit)

    def _note_consumed(self, unit: Unit) -> None:
        """Take from the model, in order, what the executions that became ready were given."""
        for _, execution in unit.ready:
            if execution.phase != "execute" or execution.results is None:
                continue
            if self._before.get(execution.number) == "execute":
                continue
            for result in execution.results.channel_results:
                for value in result.values:
                    assert self.waiting[result.channel_name].popleft() == value.int_value
                    self.consumed.append(value.int_value)

    def _messages(self, names: list[str]) -> list[pb.ChannelMessage]:
        if not self.run_.is_running:
            return []
        messages: list[pb.ChannelMessage] = []
        for name in names:
            self.published += 1
            self.waiting[name].append(self.published)
            published = message(name, "")
            published.value.int_value = self.published
            messages.append(published)
        return messages

    def _pick(self, *phases: str) -> StepExecution | None:
        due = (
            each for each in self.run_.executions.values() if each.phase in phases and each.due_at <= self.now
        )
        return next(due, None)

    def _attempt(self, *phases: str) -> StepExecution:
        """Hand the first attempt that is due to a Worker, marked if its number is limited."""
        execution = self._pick(*phases)
        assert execution is not None
        maximum = read_retry_policy(execution).maximum_attempts
        method = (execution.execution_id, execution.phase)
        self.made[method] = self.made.get(method, 0) + 1
        assert not maximum or self.made[method] <= maximum
        if maximum:
            unit = self._open()
            apply_attempt_started(self.run_, execution, unit)
            self._commit(unit)
        return execution

    def _require_equal(self, read: Run) -> None:
        for name in (
            "status",
            "closed_at",
            "error_type",
            "error_message",
            "is_completing",
            "channels",
            "plain",
        ):
            assert getattr(read, name) == getattr(self.run_, name), name
        assert read.last_message == self.run_.last_message
        assert read.started_counts == self.run_.started_counts
        assert read.last_execution == self.run_.last_execution
        assert list(read.executions) == list(self.run_.executions)
        for number, execution in self.run_.executions.items():
            for name in ("execution_id", "movement", "phase", "attempt", "is_started", "condition", "timers"):
                assert getattr(read.executions[number], name) == getattr(execution, name), name
            assert read.executions[number].due_at == execution.due_at
            assert read.executions[number].first_attempt_at == execution.first_attempt_at


TestMachine = MachineUnderAnyInterleaving.TestCase
TestMachine.settings = settings(
    max_examples=max(50, settings().max_examples // 300), stateful_step_count=30, deadline=None
)
