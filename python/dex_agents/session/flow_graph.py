"""The movements of the session Flow, with the options of each; `step_routes` is the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

import msgspec
from dex import (
    AttributeMapLoad,
    Context,
    RetryPolicy,
    Step,
    StepDecision,
    StepMovement,
    StepOptions,
    dead_end,
    go_to_many,
)

from dex_agents.errors import RunnerContractError
from dex_agents.limits import (
    MAX_MODEL_CALL_ATTEMPTS,
    MAX_TOOL_CALL_ATTEMPTS,
    STEP_HEARTBEAT_SECONDS,
)
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.persistence import (
    CONTEXT_SUMMARY,
    EARLIER_WRITES,
    FINISHED_CALLS,
    IDLE,
    INBOX,
    LATEST_SUMMARY,
    MESSAGES,
    TOOL_CALLS,
    TOOL_DECISIONS,
    TURN_GATE,
    chunk_instance,
    map_instance,
)
from dex_agents.session.state import CallModel, SessionChange, StartToolCalls, ToolStart, WaitForUser
from dex_agents.session.transitions.retention import is_retention_due
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.sessions import AgentTurnState, SessionRecord
from dex_agents.wire.signals import IdleToken
from dex_agents.wire.step_inputs import IdleStepInput, ToolStepInput, TurnStepInput
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["UNTIL_IT_WORKS", "FlowGraph", "StepClasses", "rest"]

UNTIL_IT_WORKS: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    total_duration=timedelta(days=3650),
)
"""Steps that only keep the books have no side effect and must never end a session: they wait for a Worker
that can do it, such as one that reads a newer format."""


@dataclass(frozen=True, kw_only=True)
class StepClasses:
    """The Step classes of a session Flow; their names are the Step names in history and search."""

    await_user_message: type[Step[IdleStepInput]]
    apply_retention: type[Step[IdleStepInput]]
    run_model: type[Step[TurnStepInput]]
    fail_turn: type[Step[TurnStepInput]]
    resume_turn: type[Step[TurnStepInput]]
    cancel_turn: type[Step[TurnStepInput]]
    close_session: type[Step[IdleStepInput]]
    call_tool: type[Step[ToolStepInput]]
    call_single_attempt_tool: type[Step[ToolStepInput]]
    record_tool_failure: type[Step[ToolStepInput]]
    await_tool_approval: type[Step[ToolStepInput]]
    await_question_answer: type[Step[ToolStepInput]]
    await_wait_end: type[Step[ToolStepInput]]
    await_earlier_write: type[Step[ToolStepInput]]
    poll_tool_task: type[Step[ToolStepInput]]
    reconcile_tool_call: type[Step[ToolStepInput]]


class FlowGraph:
    """Builds the movements of a session Flow."""

    def __init__(self, steps: StepClasses, options: AgentSessionOptions) -> None:
        """Bind Step classes to options."""
        self._steps = steps
        self._options = options

    @property
    def steps_of_a_turn(self) -> tuple[type[Step[Any]], ...]:
        """The Steps that can be active while a turn runs, its running tool Steps apart."""
        steps = self._steps
        return (
            steps.run_model,
            steps.fail_turn,
            steps.resume_turn,
            steps.await_tool_approval,
            steps.await_question_answer,
            steps.await_wait_end,
            steps.await_earlier_write,
            steps.poll_tool_task,
        )

    @property
    def tool_steps(self) -> tuple[type[Step[ToolStepInput]], ...]:
        """The Steps in which a tool runs, and those that find out what became of it."""
        steps = self._steps
        return (
            steps.call_tool,
            steps.call_single_attempt_tool,
            steps.record_tool_failure,
            steps.reconcile_tool_call,
        )

    def follow(self, context: Context, change: SessionChange, record: SessionRecord) -> StepDecision:
        """Return the decision that follows a change of a running turn.

        Args:
            context: The Step attempt.
            change: What is being committed.
            record: The record as `commit_change` wrote it.
        """
        match change.next_step:
            case CallModel():
                return go_to_many(self.call_model(record))
            case StartToolCalls(starts, interrupts):
                turn = change.running_turn
                by_call = {one.tool_call_id: one for one in interrupts}
                is_alone = len(starts) == 1
                movements = [
                    self._start_tool(
                        start, by_call.get(start.tool_call.tool_call_id), turn, is_alone=is_alone
                    )
                    for start in starts
                ]
                # The end of a single call leads to the model by itself.
                return go_to_many(*movements, *(() if is_alone else (self._join(turn, len(starts)),)))
            case WaitForUser() if is_retention_due(record, self._options.retention):
                return go_to_many(self._apply_retention())
            case WaitForUser():
                return rest(context)
            case _:
                assert_never(change.next_step)

    def await_user_message(self) -> StepMovement[IdleStepInput]:
        """Wait for a message or the end of the session."""
        options = StepOptions(
            wait_for_retry=UNTIL_IT_WORKS,
            execute_retry=UNTIL_IT_WORKS,
            execute_lock_attributes=(TURN_GATE.lock(),),
            execute_load_channels=(INBOX,),
        )
        return StepMovement(self._steps.await_user_message, IdleStepInput(), options=options)

    def _apply_retention(self) -> StepMovement[IdleStepInput]:
        options = StepOptions(
            execute_retry=UNTIL_IT_WORKS, execute_load_attribute_maps=(MESSAGES, TOOL_CALLS)
        )
        return StepMovement(self._steps.apply_retention, IdleStepInput(), options=options)

    def close_session(self) -> StepMovement[IdleStepInput]:
        """End the session."""
        options = StepOptions(execute_retry=UNTIL_IT_WORKS, execute_load_channels=(INBOX,))
        return StepMovement(self._steps.close_session, IdleStepInput(), options=options)

    def call_model(self, record: SessionRecord, *, begins_turn: bool = False) -> StepMovement[TurnStepInput]:
        """Call the model with everything that it reads; what a summary covers stays where it is.

        Args:
            record: The session as it is committed.
            begins_turn: The turn begins in the same commit.

        Raises:
            RunnerContractError: No turn runs.
        """
        turn = record.turn
        if turn is None:
            raise RunnerContractError("no turn runs that could call a model")
        instances = (*_loads(turn.tool_call_ids), *_context_loads(record))
        # Without a summary everything is read, and one load says so for any number of chunks.
        maps = () if record.chunks else (MESSAGES,)
        # Written with every model call and hardly ever used: short to name is better than little to load.
        on_failure = StepOptions(
            execute_retry=UNTIL_IT_WORKS,
            execute_load_attribute_maps=(MESSAGES, CONTEXT_SUMMARY),
            execute_load_channels=(INBOX,),
            execute_load_attribute_map_instances=_loads(turn.tool_call_ids),
        )
        options = StepOptions(
            execute_method_timeout=self._options.model_call_timeout,
            heartbeat_timeout=timedelta(seconds=STEP_HEARTBEAT_SECONDS),
            execute_retry=RetryPolicy(
                initial_interval=timedelta(seconds=1),
                maximum_attempts=MAX_MODEL_CALL_ATTEMPTS,
                total_duration=UNTIL_IT_WORKS.total_duration,
            ),
            execute_load_attribute_maps=maps,
            execute_load_channels=(INBOX,),
            execute_load_attribute_map_instances=instances,
        ).on_execute_failure_proceed_to(self._steps.fail_turn, on_failure)
        return StepMovement(
            self._steps.run_model,
            TurnStepInput(turn.number, turn.response_index, begins_turn=begins_turn),
            options=options,
        )

    def cancel_turn(
        self, turn: AgentTurnState, *, is_grace_over: bool = False
    ) -> StepMovement[TurnStepInput]:
        """End a turn; which calls it has by then is not known yet, so all of them are loaded."""
        options = StepOptions(
            wait_for_retry=UNTIL_IT_WORKS,
            execute_retry=UNTIL_IT_WORKS,
            wait_for_load_attribute_maps=(TOOL_CALLS,),
            execute_load_attribute_maps=(MESSAGES, TOOL_CALLS, CONTEXT_SUMMARY),
            # Never both: what is loaded of several Channels may come in each other's place.
            execute_load_channels=(INBOX,) if is_grace_over else (),
            execute_load_channel_maps=(
                () if is_grace_over else (FINISHED_CALLS, TOOL_DECISIONS, EARLIER_WRITES)
            ),
        )
        return StepMovement(
            self._steps.cancel_turn,
            TurnStepInput(turn.number, turn.response_index, is_grace_over=is_grace_over),
            options=options,
        )

    def run_tool(self, step: ToolStepInput, effect: ToolEffect) -> StepMovement[ToolStepInput]:
        """Run a call, in the Step that its effect asks for."""
        if effect.may_run_again:
            step_class, attempts = self._steps.call_tool, MAX_TOOL_CALL_ATTEMPTS
        else:
            step_class, attempts = self._steps.call_single_attempt_tool, 1
        own = _loads((step.tool_call_id,))
        step = _without_wait(step)
        options = StepOptions(
            execute_method_timeout=self._options.tool_call_timeout,
            heartbeat_timeout=timedelta(seconds=STEP_HEARTBEAT_SECONDS),
            execute_retry=RetryPolicy(
                initial_interval=timedelta(seconds=1),
                maximum_attempts=attempts,
                total_duration=UNTIL_IT_WORKS.total_duration,
            ),
            execute_load_attribute_map_instances=own,
        ).on_execute_failure_proceed_to(
            self._steps.record_tool_failure,
            StepOptions(execute_retry=UNTIL_IT_WORKS, execute_load_attribute_map_instances=own),
        )
        return StepMovement(step_class, step, options=options)

    def reconcile_tool_call(self, step: ToolStepInput, unknown_because: str) -> StepMovement[ToolStepInput]:
        """Let the tool look up what became of a call."""
        own = _loads((step.tool_call_id,))
        options = StepOptions(
            execute_method_timeout=self._options.tool_call_timeout,
            heartbeat_timeout=timedelta(seconds=STEP_HEARTBEAT_SECONDS),
            execute_retry=RetryPolicy(
                initial_interval=timedelta(seconds=1),
                maximum_attempts=MAX_TOOL_CALL_ATTEMPTS,
                total_duration=UNTIL_IT_WORKS.total_duration,
            ),
            execute_load_attribute_map_instances=own,
        ).on_execute_failure_proceed_to(
            self._steps.record_tool_failure,
            StepOptions(execute_retry=UNTIL_IT_WORKS, execute_load_attribute_map_instances=own),
        )
        asked = msgspec.structs.replace(_without_wait(step), unknown_because=unknown_because)
        return StepMovement(self._steps.reconcile_tool_call, asked, options=options)

    def await_earlier_write(self, step: ToolStepInput) -> StepMovement[ToolStepInput]:
        """Wait for the ordered write before this one."""
        options = StepOptions(
            wait_for_retry=UNTIL_IT_WORKS,
            execute_retry=UNTIL_IT_WORKS,
            execute_load_attribute_map_instances=_loads((step.tool_call_id,)),
            execute_load_channel_map_instances=(
                TOOL_DECISIONS.load_messages(map_instance(step.tool_call_id)),
            ),
        )
        return StepMovement(self._steps.await_earlier_write, _without_wait(step), options=options)

    def await_interrupt(self, step: ToolStepInput, interrupt: AgentInterrupt) -> StepMovement[ToolStepInput]:
        """Wait for a person or for a point in time, as the interrupt says."""
        waiting = msgspec.structs.replace(
            step, until=interrupt.until or interrupt.deadline, questions=interrupt.questions
        )
        # A command that ends interrupts, and the time that does, must each know of the other.
        gate = (TURN_GATE.lock(),)
        instance = map_instance(step.tool_call_id)
        options = StepOptions(
            wait_for_retry=UNTIL_IT_WORKS,
            execute_retry=UNTIL_IT_WORKS,
            wait_for_lock_attributes=gate,
            wait_for_load_channels=(INBOX,),
            execute_lock_attributes=gate if waiting.until is not None else (),
            execute_load_attribute_map_instances=_loads((step.tool_call_id,)),
            execute_load_channel_map_instances=(
                EARLIER_WRITES.load_messages(instance),
                TOOL_DECISIONS.load_messages(instance),
            ),
        )
        match interrupt.kind:
            case "approval":
                return StepMovement(self._steps.await_tool_approval, waiting, options=options)
            case "question":
                return StepMovement(self._steps.await_question_answer, waiting, options=options)
            case "wait":
                return StepMovement(self._steps.await_wait_end, waiting, options=options)
            case "task":
                raise RunnerContractError("a task is polled, not waited for")
            case _:
                assert_never(interrupt.kind)

    def poll_tool_task(self, step: ToolStepInput, at: datetime) -> StepMovement[ToolStepInput]:
        """Ask how a remote task is getting on, at a point in time."""
        options = StepOptions(
            wait_for_retry=UNTIL_IT_WORKS,
            execute_retry=UNTIL_IT_WORKS,
            heartbeat_timeout=timedelta(seconds=STEP_HEARTBEAT_SECONDS),
            execute_load_attribute_map_instances=_loads((step.tool_call_id,)),
        )
        polling = msgspec.structs.replace(step, until=at, questions=())
        return StepMovement(self._steps.poll_tool_task, polling, options=options)

    def _start_tool(
        self, start: ToolStart, interrupt: AgentInterrupt | None, turn: AgentTurnState, *, is_alone: bool
    ) -> StepMovement[ToolStepInput]:
        step = ToolStepInput(
            turn_number=turn.number,
            response_index=turn.response_index,
            tool_call_id=start.tool_call.tool_call_id,
            next_write_id=start.next_write_id,
            follows_write=start.follows_write,
            is_alone=is_alone,
        )
        if interrupt is not None:
            return self.await_interrupt(step, interrupt)
        if start.begins_with == "earlier_write":
            return self.await_earlier_write(step)
        return self.run_tool(step, start.tool_call.effect)

    def _join(self, turn: AgentTurnState, calls: int) -> StepMovement[TurnStepInput]:
        options = StepOptions(wait_for_retry=UNTIL_IT_WORKS, execute_retry=UNTIL_IT_WORKS)
        step = TurnStepInput(turn.number, turn.response_index, calls_to_join=calls)
        return StepMovement(self._steps.resume_turn, step, options=options)


def rest(context: Context) -> StepDecision:
    """Let the next turn begin: by `AwaitUserMessage`, which waits beside every turn, or by a command."""
    IDLE.publish(context, IdleToken())
    return dead_end()


def _context_loads(record: SessionRecord) -> tuple[AttributeMapLoad, ...]:
    chunks = tuple(MESSAGES.load(chunk_instance(key)) for key in record.chunks)
    return (*chunks, CONTEXT_SUMMARY.load(LATEST_SUMMARY)) if record.summary_revision else chunks


def _loads(tool_call_ids: Iterable[str]) -> tuple[AttributeMapLoad, ...]:
    return tuple(TOOL_CALLS.load(map_instance(one)) for one in tool_call_ids)


def _without_wait(step: ToolStepInput) -> ToolStepInput:
    return msgspec.structs.replace(step, until=None, questions=())
