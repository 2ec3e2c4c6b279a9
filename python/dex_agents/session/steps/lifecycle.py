"""Steps outside a turn: the session begins, waits for a message, and ends."""

from __future__ import annotations

from dex import (
    AsyncContext,
    Context,
    StepDecision,
    StepOptions,
    Wait,
    force_complete_if_channels_empty,
    go_to_many,
)

from dex_agents import texts
from dex_agents.session.flow_graph import UNTIL_IT_WORKS, FlowGraph
from dex_agents.session.persistence import (
    CLOSING,
    INBOX,
    PLAN,
    RECORD,
    STATUS,
    TURN_GATE,
    WAKE_UPS,
    get_stored,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import commit_change, raise_milestone
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_loading import load_record
from dex_agents.session.transitions.closing import close_session, summarize_session
from dex_agents.session.transitions.turns import begin_turn
from dex_agents.session.user_messages import build_user_message
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.signals import InboxItem
from dex_agents.wire.step_inputs import IdleStepInput, SessionStepInput

__all__ = ["AwaitUserMessage", "CloseSession", "StartSession"]


class StartSession(SessionStep[SessionStepInput]):
    """Writes the first record; with a first message the first turn begins in the same commit.

    Durability:
        Only writes state: a repeat writes the same.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def get_step_options(self) -> StepOptions:
        """Return options that never end the session."""
        return StepOptions(execute_retry=UNTIL_IT_WORKS, execute_lock_attributes=(TURN_GATE.lock(),))

    async def execute(self, context: AsyncContext, input: SessionStepInput) -> StepDecision:
        """Begin the session."""
        now = self._runtime.clock()
        record = SessionRecord(started_at=now)
        raise_milestone(context)
        if input.first_message is None:
            RECORD.set(context, record)
            STATUS.set(context, "idle")
            return go_to_many(self._graph.await_user_message())
        message = QueuedMessage(
            message_id=input.first_message.message_id or f"{context.flow_id}:first",
            text=input.first_message.text,
            accepted_at=now,
            plan_mode=input.first_message.plan_mode,
            images=input.first_message.images,
        )
        if CLOSING.get(context):
            # The wake-up of the command that closes is there; the message is stored as unanswered.
            RECORD.set(context, record)
            INBOX.publish(context, InboxItem(message=message))
            return go_to_many(self._graph.await_user_message())
        return _take(self._runtime, self._graph, context, record, message)


class AwaitUserMessage(SessionStep[IdleStepInput]):
    """Waits, for as long as it takes, for the next message or for the end of the session.

    Durability:
        Taking a message and beginning its turn is one commit: a crash takes it again or not at all.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: IdleStepInput) -> Wait:
        """Wait until there may be something to do."""
        return Wait.until(WAKE_UPS.for_one())

    async def execute(self, context: AsyncContext, input: IdleStepInput) -> StepDecision:
        """End the session, take the oldest message, or wait again."""
        if CLOSING.get(context):
            return go_to_many(self._graph.close_session())
        for item in load_inbox(context).waits_for_turn:
            if item.value.message is not None:
                INBOX.delete(context, item.message_id)
                return _take(self._runtime, self._graph, context, load_record(context), item.value.message)
        return go_to_many(self._graph.await_user_message())


class CloseSession(SessionStep[IdleStepInput]):
    """Ends the session, unless a message arrived meanwhile: then that is stored first.

    Durability:
        Storing what is queued, removing it from the queue and completing the Flow is one commit.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    async def execute(self, context: AsyncContext, input: IdleStepInput) -> StepDecision:
        """Store what nobody will answer, and complete."""
        runner = self._runtime.runner
        inbox = load_inbox(context)
        change = close_session(
            load_record(context),
            [
                (message, build_user_message(runner, message))
                for message in sorted(inbox.messages, key=lambda message: message.accepted_at)
            ],
            runner.build_user_message(texts.SESSION_CLOSED_NOTE),
            self._runtime.clock(),
            settled=[item.value.settled for item in inbox.settled if item.value.settled is not None],
        )
        inbox.take_all(context)
        commit_change(context, change)
        with step_events(context, self._runtime, None) as events:
            events.write_all(change.events)
        return force_complete_if_channels_empty(
            summarize_session(change.record), self._graph.close_session(), INBOX
        )


def _take(
    runtime: SessionRuntime,
    graph: FlowGraph,
    context: AsyncContext,
    record: SessionRecord,
    message: QueuedMessage,
) -> StepDecision:
    user_message = build_user_message(runtime.runner, message)
    change = begin_turn(record, message, user_message, runtime.clock(), plan=get_stored(PLAN, context))
    with step_events(context, runtime, change.running_turn.turn_id) as events:
        events.write_all(change.events)
    record = commit_change(context, change)
    INBOX.publish(context, InboxItem(running_turn=change.running_turn.number))
    return graph.follow(change, record)
