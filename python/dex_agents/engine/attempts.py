"""Attempts of Step methods, from the moment they are due to their end.

==================  ======================================================================
the attempt         what follows
==================  ======================================================================
is due              its task is queued, or assigned at once if a Worker has room
is assigned         locks are taken; a limited attempt is durably marked, then it leaves
is declined         the mark is taken back; the same attempt is queued again
returns             its result is applied as one unit
fails, is late      its failure is applied as one unit
is abandoned        its Worker is told to stop, and what it still answers is dropped
==================  ======================================================================
"""

from __future__ import annotations

import asyncio
import logging

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.dispatch import Dispatcher
from dex_agents.engine.failures import GRPC_UNAVAILABLE, ServiceError, worker_failed
from dex_agents.engine.large_replies import LargeReplies
from dex_agents.engine.locks import Locks
from dex_agents.engine.machine import (
    apply_attempt_failure,
    apply_attempt_not_started,
    apply_attempt_started,
    apply_execute_result,
    apply_heartbeat,
    apply_wait_for_result,
)
from dex_agents.engine.request_size import fit_task
from dex_agents.engine.requests import build_rpc_task, build_step_task
from dex_agents.engine.retries import (
    AttemptFailure,
    read_heartbeat_timeout,
    read_lock_keys,
    read_method_timeout,
    read_retry_policy,
)
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.tasks import Task, TimeoutReason
from dex_agents.engine.timers import Timers
from dex_agents.engine.units import Units
from dex_agents.engine.values import MAX_INLINE_BYTES

DEADLINE_GRACE_SECONDS = 1.0
"""How much later than a Worker, which cancels a handler at its deadline by itself, the engine gives it up."""

_LOGGER = logging.getLogger(__name__)


class Attempts:
    """Owns every task: a `TaskSource`.

    Attributes:
        dispatcher: Where tasks are handed out.
        locks: The Attribute locks.
    """

    def __init__(self, units: Units, timers: Timers, large_values: LargeReplies) -> None:
        self._units = units
        self._large_values = large_values
        self._timers = timers
        self.dispatcher = Dispatcher(self, units.committer.call_when_durable)
        self.locks = Locks(self.dispatcher.submit)

    def schedule(self, run: Run, execution: StepExecution) -> None:
        """Queue the present attempt of an execution, now or when it is due."""
        if (
            run.executions.get(execution.number) is not execution
            or execution.phase == "waiting"
            or execution.attempt_token is not None
        ):
            return
        if execution.due_at > self._units.now():
            self._timers.set(execution.due_at, run.number, execution.number)
            return
        task = Task(
            run,
            execution=execution,
            timeout=read_method_timeout(execution) + DEADLINE_GRACE_SECONDS,
            heartbeat_timeout=read_heartbeat_timeout(execution),
        )
        execution.attempt_token = task
        self.dispatcher.submit(task)

    def abandon(self, execution: StepExecution) -> None:
        """Give up an execution that has ended: tell its Worker to stop and free its locks."""
        task = execution.attempt_token
        if isinstance(task, Task):
            execution.attempt_token = None
            self.dispatcher.withdraw(task)
            self._release_locks(task)

    def prepare_task(self, task: Task) -> tuple[bytes, int] | None:
        """Build what a Worker is sent; see `TaskSource`."""
        run, execution = task.run, task.execution
        if execution is None:
            if task.request is None:
                return None
            deadline = self._units.now() + task.timeout - DEADLINE_GRACE_SECONDS
            response = build_rpc_task(run, task.request, task.task_id, deadline)
            return self._fit(task, response)
        if not self._is_current(task):
            return None
        keys = read_lock_keys(execution)
        if keys:
            if self.locks.find_held(run, keys) is not None:
                self.locks.wait(task)
                return None
            self.locks.take(run, keys)
            task.lock_keys = keys
        if read_retry_policy(execution).maximum_attempts > 0 and not execution.is_started:
            self._mark_started(run, execution)
        deadline = self._units.now() + task.timeout - DEADLINE_GRACE_SECONDS
        return self._fit(task, build_step_task(run, execution, task.task_id, deadline))

    def note_heartbeat(self, task: Task, beat: pb.StepMethodHeartbeat) -> None:
        """Keep the value of a heartbeat for the next attempt."""
        execution = task.execution
        if execution is None or not self._is_current(task):
            return
        if not beat.HasField("value") and execution.heartbeat is None:
            return
        unit = self._units.open()
        try:
            apply_heartbeat(task.run, execution, beat, unit)
        except ServiceError as failure:
            _LOGGER.warning("ignoring a heartbeat of %s: %s", execution.execution_id, failure.detail)
            return
        self._units.commit(unit)

    def note_step_result(
        self, task: Task, result: pb.InvokeWaitForMethodResponse | pb.InvokeExecuteMethodResponse
    ) -> None:
        """Apply what a Step method returned; a late answer of an abandoned attempt is dropped in full."""
        execution = self._end_attempt(task)
        if execution is None:
            return
        unit = self._units.open()
        try:
            if isinstance(result, pb.InvokeWaitForMethodResponse):
                apply_wait_for_result(task.run, execution, result, unit, self._units.now())
            else:
                apply_execute_result(task.run, execution, result, unit, self._units.now())
        except ServiceError as failure:
            _LOGGER.warning(
                "the result of %s in flow %r is refused: %s",
                execution.execution_id,
                task.run.flow_id,
                failure.detail,
            )
            unit = self._units.open()
            invalid = AttemptFailure(failure.detail, "InvalidStepResult")
            apply_attempt_failure(task.run, execution, invalid, unit, self._units.now())
        self._units.commit(unit)
        self._release_locks(task)

    def note_step_failure(self, task: Task, failure: AttemptFailure) -> None:
        """Apply the failure of an attempt."""
        execution = self._end_attempt(task)
        if execution is None:
            return
        unit = self._units.open()
        apply_attempt_failure(task.run, execution, failure, unit, self._units.now())
        self._units.commit(unit)
        self._release_locks(task)

    def note_not_run(self, task: Task) -> None:
        """Queue a task again that its Worker did not run any of; it stays the same attempt."""
        if task.reply is not None:
            if not task.is_withdrawn:
                self.dispatcher.resubmit(task)
            return
        self._release_locks(task)
        if task.execution is None or not self._is_current(task):
            return
        if task.execution.is_started:
            unit = self._units.open()
            apply_attempt_not_started(task.run, task.execution, unit)
            unit.touch(task.run)
            self._units.commit(unit)
        self.dispatcher.resubmit(task)

    def note_timeout(self, task: Task, reason: TimeoutReason) -> None:
        """Give a running attempt up; see `TaskSource`."""
        if task.reply is None:
            seconds = task.timeout - DEADLINE_GRACE_SECONDS if reason == "method" else task.heartbeat_timeout
            error_type = "MethodTimeout" if reason == "method" else "HeartbeatTimeout"
            what = "did not return" if reason == "method" else "sent no heartbeat"
            self.dispatcher.withdraw(task)
            self.note_step_failure(task, AttemptFailure(f"the Step {what} within {seconds:g} s", error_type))

    def note_undeliverable(self, task: Task) -> None:
        """Fail a task that no Worker can take; see `TaskSource`."""
        if task.excluded:
            error_type, detail = "UnknownName", "no connected Worker knows its name"
        else:
            error_type, detail = "NoWorkerAvailable", f"no Worker serves the flow type {task.run.flow_type!r}"
        self._fail(task, error_type, detail)

    def _mark_started(self, run: Run, execution: StepExecution) -> None:
        """Mark an attempt before its task leaves, which waits for everything that touched its run."""
        unit = self._units.present
        if unit is not None:
            apply_attempt_started(run, execution, unit)
            run.last_sequence = unit.sequence
            return
        unit = self._units.open()
        apply_attempt_started(run, execution, unit)
        unit.touch(run)
        self._units.commit(unit)

    def _fit(self, task: Task, response: pb.PollWorkerTaskResponse) -> tuple[bytes, int] | None:
        encoded = response.SerializeToString()
        if len(encoded) <= MAX_INLINE_BYTES:
            return encoded, task.run.last_sequence
        problem = fit_task(response, task.run, self._large_values.keep)
        if problem is None:
            return response.SerializeToString(), task.run.last_sequence
        # Not from within: the dispatcher is in the middle of handing out tasks.
        asyncio.get_running_loop().call_soon(self._fail, task, "TaskTooLarge", problem.detail)
        return None

    def _fail(self, task: Task, error_type: str, detail: str) -> None:
        if task.reply is None:
            self.note_step_failure(task, AttemptFailure(detail, error_type))
        elif not task.reply.done():
            nobody = GRPC_UNAVAILABLE if error_type == "NoWorkerAvailable" else 0
            failure = pb.WorkerErrorResponse(detail=detail, error_type=error_type, grpc_status=nobody)
            task.reply.set_exception(worker_failed(failure))

    def _is_current(self, task: Task) -> bool:
        execution = task.execution
        return (
            execution is not None
            and execution.attempt_token is task
            and task.run.executions.get(execution.number) is execution
        )

    def _end_attempt(self, task: Task) -> StepExecution | None:
        """Return the execution that a task is the present attempt of; it is no longer.

        Its locks are the caller's to release, once what it wrote is in the run: whoever waits for them reads
        that.
        """
        execution = task.execution
        if execution is None or not self._is_current(task):
            self._release_locks(task)
            return None
        execution.attempt_token = None
        return execution

    def _release_locks(self, task: Task) -> None:
        if task.execution is not None and task.lock_keys:
            keys, task.lock_keys = task.lock_keys, frozenset()
            self.locks.release(task.run, keys)
