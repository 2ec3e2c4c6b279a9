"""Steps of a turn that think: the model call, the join before it, and the end of a turn that failed."""

from __future__ import annotations

from collections.abc import Sequence

from dex import AsyncContext, Context, StepDecision, Wait, dead_end, go_to_many

from dex_agents import texts
from dex_agents.errors import ModelCallError, RunnerContractError
from dex_agents.runner.outcomes import AgentTurnOutcome, ToolCallsRequested, TurnCompleted, TurnContinued
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import FINISHED_CALLS, SETTINGS, get_stored, response_instance
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.state import SessionChange, TurnView
from dex_agents.session.steps.closing_messages import closing_messages
from dex_agents.session.steps.commit import commit_change
from dex_agents.session.steps.compact_context import ContextKeeper
from dex_agents.session.steps.event_stream import StepEvents, step_events
from dex_agents.session.steps.failures import describe_failure, name_retry_time
from dex_agents.session.steps.finished_calls import report_finished_call
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.joining import Joining, build_joining
from dex_agents.session.steps.liveness import heartbeats
from dex_agents.session.steps.paid_calls import PaidCalls
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.steps.turn_loading import load_record, load_turn
from dex_agents.session.transitions.joining import JoiningMessage, number_joined
from dex_agents.session.transitions.turns import (
    decide_model_outcome,
    fail_turn,
    first_tool_call_number,
    used_tool_call_ids,
    with_settings_revision,
)
from dex_agents.wire.events import ModelStarted, SettingsUpdated
from dex_agents.wire.settings import SessionSettings
from dex_agents.wire.step_inputs import TurnStepInput

__all__ = ["FailTurn", "ResumeTurn", "RunModel"]


class RunModel(SessionStep[TurnStepInput]):
    """Makes one model call: the turn's, or before it the one that summarises an earlier conversation.

    Durability:
        Built from committed state and from what was accepted to join the turn, so an attempt that is lost is
        repeated: the same call, at most `limits.MAX_MODEL_CALL_ATTEMPTS` times. Its answer, the records of
        the calls it asks for, and the Steps that run them are one commit. A summary is a commit too, and
        another `RunModel` follows it, which takes what joins. Where a provider says when to come back, the
        next attempt is made then.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    async def execute(self, context: AsyncContext, input: TurnStepInput) -> StepDecision:
        """Call the model and follow what it says."""
        try:
            return await self._call_model(context, input)
        except ModelCallError as error:
            later = name_retry_time(error)
            if later is None:
                raise
            # Out here, since a context manager cannot carry the SDK's error: its class is frozen.
            raise later from error

    async def _call_model(self, context: AsyncContext, input: TurnStepInput) -> StepDecision:
        view = load_turn(context, input.turn_number)
        if view is None or view.turn.response_index != input.response_index:
            return dead_end()
        if is_cancelled(context, input.turn_number):
            # A call that ended while its turn was being cancelled has led here: the turn's end waits for it.
            for tool_call_id in view.turn.waiting_call_ids:
                report_finished_call(context, input.turn_number, input.response_index, tool_call_id)
            return dead_end()
        inbox = load_inbox(context)
        joining = build_joining(inbox, self._runtime.runner)
        settings = get_stored(SETTINGS, context)
        with step_events(context, self._runtime, view.turn.turn_id, view.turn.response_index) as events:
            if input.begins_turn:
                events.announce_turn(view, for_good=False)
            async with heartbeats(context):
                change, has_joined = await self._think(context, view, joining, settings, events)
            events.write_all(change.events)
        left = inbox.take_joining(context, settled=True) if has_joined else inbox
        record = commit_change(context, change, loaded_messages=view.messages, inbox=left)
        return self._graph.follow(context, change, record)

    async def _think(
        self,
        context: AsyncContext,
        view: TurnView,
        joining: Joining,
        settings: SessionSettings | None,
        events: StepEvents,
    ) -> tuple[SessionChange, bool]:
        """Return what follows, and whether what joins has been read."""
        turn = self._turn_context(context, view, joining.messages, settings, events)
        paid = PaidCalls(self._runtime, context, view, turn)
        keeper = ContextKeeper(self._runtime, view, turn, paid)
        change = await keeper.make_room()
        if change is not None:
            return paid.finish(change), False
        refusal = await paid.ask("answer", keeper.estimated_tokens)
        if refusal is not None:
            return paid.finish(keeper.fail(refusal)), False
        events.begin_response(view.turn.response_index + 1)
        events.write_all(joining.events)
        if settings is not None and settings.revision != view.record.settings_revision:
            events.write(SettingsUpdated(revision=settings.revision))
            view = with_settings_revision(view, settings.revision)
        events.write(ModelStarted())
        outcome = _require_outcome(await self._runtime.runner.run_model_step(turn))
        await paid.report("answer", outcome.usage, outcome.model_call_metadata)
        change = decide_model_outcome(
            view,
            outcome,
            self._runtime.clock(),
            rules=self._runtime.rules,
            joining=joining.messages,
            streamed_text=events.streamed_text,
        )
        return paid.finish(change, outcome.input_token_anchor), True

    def _turn_context(
        self,
        context: AsyncContext,
        view: TurnView,
        joining: Sequence[JoiningMessage],
        settings: SessionSettings | None,
        events: StepEvents,
    ) -> AgentTurnContext:
        options = self._runtime.options
        policy = options.compaction
        joined = number_joined(
            (),
            joining,
            next_sequence=view.record.next_sequence,
            turn_id=view.turn.turn_id,
            now=self._runtime.clock(),
        )
        return AgentTurnContext(
            flow_id=context.flow_id,
            turn_id=view.turn.turn_id,
            attempt=context.attempt,
            messages=(*view.messages, *joined),
            framework_run_state=view.turn.framework_run_state,
            tool_calls=view.tool_calls,
            events=events,
            tool_policies=options.tool_policies,
            default_tool_effect=options.default_tool_effect,
            used_tool_call_ids=used_tool_call_ids(view),
            context_summary=view.summary,
            context_window_tokens=None if policy is None else policy.context_window_tokens,
            input_token_anchor=view.record.input_token_anchor,
            first_tool_call_number=first_tool_call_number(view),
            session_settings={} if settings is None else settings.values,
            interaction_mode="plan" if view.turn.plan_mode else "default",
            plan=view.plan,
            built_in_tools=self._runtime.built_in_tools,
        )


class ResumeTurn(SessionStep[TurnStepInput]):
    """Waits until every call of a response has a final record; the next model call follows.

    Durability:
        Each call reports itself in the commit of its final record, so none is missed and none counts twice.
    """

    def __init__(self, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._graph = graph

    def wait_for(self, context: Context, input: TurnStepInput) -> Wait:
        """Wait for the reports of all calls."""
        instance = response_instance(input.turn_number, input.response_index)
        return Wait.until(FINISHED_CALLS.for_n(instance, input.calls_to_join))

    async def execute(self, context: AsyncContext, input: TurnStepInput) -> StepDecision:
        """Go on with the turn."""
        record = load_record(context)
        if record.turn is None or record.turn.number != input.turn_number:
            return dead_end()
        return go_to_many(self._graph.call_model(record))


class FailTurn(SessionStep[TurnStepInput]):
    """Ends a turn whose model call failed for good; the session goes on.

    Durability:
        Only writes state: a repeat writes the same.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    async def execute(self, context: AsyncContext, input: TurnStepInput) -> StepDecision:
        """Close the transcript and wait for the next message."""
        view = load_turn(context, input.turn_number)
        if view is None:
            return dead_end()
        error = describe_failure(context.recovery_error)
        closing = closing_messages(self._runtime, view, texts.turn_failed_note(error))
        change = fail_turn(view, closing, error, self._runtime.clock())
        with step_events(context, self._runtime, view.turn.turn_id, view.turn.response_index) as events:
            if input.begins_turn:
                events.announce_turn(view, for_good=True)
            events.write_all(change.events)
        record = commit_change(context, change, loaded_messages=view.messages, inbox=load_inbox(context))
        return self._graph.follow(context, change, record)


def _require_outcome(outcome: object) -> AgentTurnOutcome:
    # The contract is structural, so a runner without type checks can hand over anything.
    if not isinstance(outcome, TurnCompleted | TurnContinued | ToolCallsRequested):
        raise RunnerContractError(f"run_model_step returned {type(outcome).__name__}")
    return outcome
