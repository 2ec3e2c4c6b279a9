"""Owns the runs: starts and recovers them, and lets the effects of every durable unit follow.

Everything that changes a run is synchronous code on one event loop, so a unit is atomic in memory without
locks. Its effects (tasks, answers, wake-ups) are released by the committer once the unit is durable.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.attempts import Attempts
from dex_agents.engine.clock import Clock
from dex_agents.engine.committer import Committer
from dex_agents.engine.failures import flow_already_started
from dex_agents.engine.flow_retries import build_next_request, open_chain, pass_chain_on
from dex_agents.engine.journal import Table
from dex_agents.engine.large_replies import LargeReplies
from dex_agents.engine.machine import (
    apply_due_timers,
    apply_flow_timeout,
    apply_stop,
    start_run,
    validate_start,
)
from dex_agents.engine.recovery import plan_recovery
from dex_agents.engine.rpc_calls import RpcCalls
from dex_agents.engine.runs import RunArchive, Runs
from dex_agents.engine.state import Run, StepExecution
from dex_agents.engine.store.writer import Folded
from dex_agents.engine.timers import Timers, Waiting
from dex_agents.engine.unit import Unit
from dex_agents.engine.units import Units
from dex_agents.engine.values import BlobNumbers
from dex_agents.engine.waits import Waits
from dex_agents.engine.writes import validate_index_type

MAX_LOADED_RUNS = 64
"""Runs that are loaded at a time when their instants have come."""


class Coordinator:
    """The engine proper, without transport.

    Attributes:
        units: Opens and commits units.
        runs: Finds runs.
        waits: Long polls.
        attempts: Attempts of Step methods.
        rpc_calls: RPCs.
        large_values: Values that travel as IDs for the moment.
        is_stopping: The engine is ending.
        on_defect: Ends the engine.
    """

    def __init__(
        self,
        clock: Clock,
        archive: RunArchive,
        *,
        open_committer: Callable[[Callable[[Unit], None]], Committer],
        on_defect: Callable[[Exception], None],
        numbers: BlobNumbers,
        index_types: dict[str, int],
        last_run_number: int,
        runs_in_memory: int,
        keeps_history: bool,
    ) -> None:
        """Create a coordinator without runs.

        Args:
            clock: The time.
            archive: Where runs that are not in memory come from.
            open_committer: Returns the committer that calls back for every durable unit.
            on_defect: Called with an error that must not have happened; what is in memory is no longer to be
                trusted then, so the engine has to end.
            numbers: Blob numbers of the database.
            index_types: Search keys of the database; units add to them.
            last_run_number: The highest run number in use.
            runs_in_memory: Runs kept in memory for their use alone.
            keeps_history: What happens to runs is recorded.
        """
        self.is_stopping = False
        self.on_defect = on_defect
        self.units = Units(
            clock, open_committer(self._release), numbers, index_types, keeps_history=keeps_history
        )
        self.units.start_again = self._start_again
        self.runs = Runs(archive, last_run_number, kept=runs_in_memory)
        self.waits = Waits(self.units.committer)
        self._timers = Timers(clock, self._on_due)
        self._due: deque[Waiting] = deque()
        self._waking: asyncio.Task[None] | None = None
        self.large_values = LargeReplies(time.monotonic)
        self.attempts = Attempts(self.units, self._timers, self.large_values)
        self.units.hand_out = self.attempts.schedule
        self.rpc_calls = RpcCalls(self.units, self.runs, self.attempts)

    @property
    def instants(self) -> int:
        """Number of Timers, retries and timeouts to come."""
        return self._timers.count

    def stop(self) -> None:
        """Fire no more Timers, hand out no more tasks, and leave running attempts to the next start."""
        self.is_stopping = True
        self._timers.stop()
        if self._waking is not None:
            self._waking.cancel()
        self.attempts.dispatcher.stop()

    def note_folded(self, folded: Folded) -> None:
        """Drop what readers of the database can see."""
        self.runs.note_folded(folded)

    def recover(self, active: list[Run], instants: dict[Waiting, float]) -> None:
        """Take over from an engine that ended.

        Args:
            active: The runs in which an attempt was due or running; they go on.
            instants: When the others go on by themselves; they stay where they are until then.
        """
        self._timers.fill(instants)
        unit = self.units.open()
        now = self.units.now()
        for run in active:
            self.runs.add(run)
            plan_recovery(run, unit, now)
        if not self.units.commit(unit):
            self._release(unit)

    async def start_run(self, request: pb.StartFlowRequest) -> Run:
        """Start a run, or return the one that this very request started before.

        Raises:
            ServiceError: The request breaks a rule or the reuse policy forbids the Flow ID.

        Durability:
            The run exists when this returns; the same request, sent again, finds it.
        """
        unit = self.units.open()
        validate_start(request, unit)
        previous = await self.runs.find_latest(request.flow_id)
        options = request.flow_start_options
        if previous is not None and not _may_start_again(previous, options.id_reuse_policy):
            if (
                options.flow_already_started_options.ignore_already_started_error
                and previous.request_id == request.request_id
            ):
                await self.units.committer.wait_durable(previous.last_sequence)
                return previous
            raise flow_already_started(request.flow_id)
        now = self.units.now()
        if previous is not None and previous.is_running:
            apply_stop(previous, pb.STOP_TYPE_TERMINATE, "the flow was started again", unit, now)
        run = self._open_run(request, unit, now, request.flow_start_options.flow_start_delay_seconds)
        if request.flow_start_options.HasField("retry_policy"):
            open_chain(run, request, unit)
        await self.units.commit_durably(unit)
        return run

    def _open_run(self, request: pb.StartFlowRequest, unit: Unit, now: float, delay: float) -> Run:
        run = _build_run(self.runs.next_number(), request, now, delay)
        self.runs.add(run)
        start_run(run, request, unit, now, delay=delay)
        if run.timeout_at is not None:
            self._timers.set(run.timeout_at, run.number)
        return run

    def _start_again(self, run: Run, delay: float, unit: Unit) -> None:
        """Let another run follow one that failed, in the unit that closes it: there is no moment without."""
        chain = run.chain
        if chain is not None and chain.request is not None:
            request = build_next_request(run, chain.request, unit)
            successor = self._open_run(request, unit, run.closed_at or self.units.now(), delay)
            pass_chain_on(run, chain, successor, unit)

    def sync_index_types(self, index_types: dict[str, int]) -> Unit:
        """Register search keys; the unit is the caller's to commit.

        Raises:
            ServiceError: A key has another type already; nothing was registered.
        """
        known = self.units.index_types
        for key, index_type in index_types.items():
            validate_index_type(known, key, index_type)
        unit = self.units.open()
        for key, index_type in index_types.items():
            if known.get(key) != index_type:
                known[key] = index_type
                unit.put(Table.INDEX_TYPE, (key,), index_type)
        return unit

    def _release(self, unit: Unit) -> None:
        """Let the effects of a durable unit follow."""
        try:
            self._follow(unit)
        except Exception as error:  # noqa: BLE001 - there is no caller to tell
            self.on_defect(error)

    def _follow(self, unit: Unit) -> None:
        for run, execution in unit.ended:
            self._timers.clear(run.number, execution.number)
            self.attempts.abandon(execution)
        for run, execution in unit.ready:
            self._timers.clear(run.number, execution.number)
            self.attempts.schedule(run, execution)
        for run, execution in unit.timers:
            self._arm(run, execution)
        for run in unit.runs:
            self.waits.notify(run)
            self.runs.note_used(run)
            if not run.is_running:
                self._timers.clear(run.number)
        # An effect may refer to its unit: apart from each other, both go at once with the values they hold.
        effects, unit.effects = unit.effects, []
        for effect in effects:
            effect()

    def _arm(self, run: Run, execution: StepExecution) -> None:
        if execution.phase != "waiting":
            self.attempts.schedule(run, execution)
            return
        pending = [timer.fire_at for timer in execution.timers if not timer.is_over]
        if pending:
            self._timers.set(min(pending), run.number, execution.number)

    def _on_due(self, number: int, execution: int) -> None:
        run = self.runs.find_in_memory(number)
        if run is not None:
            self._wake(run, execution)
            return
        self._due.append((number, execution))
        if self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._wake_from_archive())

    async def _wake_from_archive(self) -> None:
        """Wake runs that have to be loaded, some at a time: many may become due at one instant."""
        try:
            while self._due:
                due = [self._due.popleft() for _ in range(min(len(self._due), MAX_LOADED_RUNS))]
                runs = {run.number: run for run in await self.runs.find_all([number for number, _ in due])}
                for number, execution in due:
                    if number in runs:
                        self._wake(runs[number], execution)
        except Exception as error:  # noqa: BLE001 - there is no caller to tell
            self.on_defect(error)
        finally:
            self._waking = None

    def _wake(self, run: Run, number: int) -> None:
        try:
            self._advance(run, number)
        except Exception as error:  # noqa: BLE001 - there is no caller to tell
            self.on_defect(error)

    def _advance(self, run: Run, number: int) -> None:
        if not run.is_running:
            return
        now = self.units.now()
        unit = self.units.open()
        execution = run.executions.get(number)
        if execution is not None:
            if execution.phase == "waiting":
                apply_due_timers(run, execution, unit, now)
            else:
                self.attempts.schedule(run, execution)
            if execution.phase == "waiting":
                self._arm(run, execution)
        elif number == 0 and run.timeout_at is not None and run.timeout_at <= now:
            apply_flow_timeout(run, unit, now)
        self.units.commit(unit)


def _build_run(number: int, request: pb.StartFlowRequest, now: float, delay: float) -> Run:
    options = request.flow_start_options
    run = Run(
        number=number,
        run_id=uuid.uuid4().hex,
        flow_id=request.flow_id,
        flow_type=request.flow_type,
        request_id=request.request_id,
        started_at=now,
        config=pb.FlowConfig(),
        timeout_policy=request.flow_timeout_policy,
    )
    run.config.CopyFrom(options.flow_config_override)
    if request.flow_timeout_seconds:
        run.timeout_at = now + delay + request.flow_timeout_seconds
    if options.HasField("timeout_handler_options"):
        run.timeout_options = _build_timeout_options(options.timeout_handler_options)
    return run


def _build_timeout_options(options: pb.FlowTimeoutHandlerOptions) -> pb.StepOptions:
    mapped = pb.StepOptions(
        skip_wait_for=True,
        execute_timeout_seconds=options.method_timeout_seconds,
        heartbeat_timeout_seconds=options.heartbeat_timeout_seconds,
        execute_failure_policy=options.failure_policy,
        execute_failure_proceed_step_type=options.failure_proceed_step_type,
        execute_lock_attribute_keys=options.lock_attribute_keys,
        execute_load_attribute_map_instances=options.load_attribute_map_instances,
        execute_load_channel_names=options.load_channel_names,
        execute_load_channel_map_instances=options.load_channel_map_instances,
    )
    if options.HasField("retry_policy"):
        mapped.execute_retry_policy.CopyFrom(options.retry_policy)
    if options.HasField("failure_proceed_step_options"):
        mapped.execute_failure_proceed_step_options.CopyFrom(options.failure_proceed_step_options)
    return mapped


def _may_start_again(previous: Run, policy: pb.IdReusePolicy) -> bool:
    if policy == pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING:
        return True
    if previous.is_running:
        return False
    if policy == pb.ID_REUSE_POLICY_ALLOW_IF_PREVIOUS_EXISTS_ABNORMALLY:
        return previous.status != pb.FLOW_STATUS_COMPLETED
    return policy == pb.ID_REUSE_POLICY_ALLOW_IF_NO_RUNNING
