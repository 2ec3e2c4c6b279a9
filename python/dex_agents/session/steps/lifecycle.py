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
    IDLE,
    INBOX,
    RECORD,
    STATUS,
    TURN_GATE,
    WAKE_UPS,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import commit_change, raise_milestone
from dex_agents.session.steps.event_stream import step_events
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.session_step import SessionStep
from dex_agents.session.steps.turn_begin import take_message
from dex_agents.session.steps.turn_loading import load_record
from dex_agents.session.transitions.closing import close_session, summarize_session
from dex_agents.session.user_messages import build_user_message
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.signals import IdleToken, InboxItem
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
        awaiting = self._graph.await_user_message()
        if input.first_message is None:
            RECORD.set(context, record)
            STATUS.set(context, "idle")
            IDLE.publish(context, IdleToken())
            return go_to_many(awaiting)
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
            IDLE.publish(context, IdleToken())
            return go_to_many(awaiting)
        return go_to_many(take_message(self._runtime, self._graph, context, record, message), awaiting)


class AwaitUserMessage(SessionStep[IdleStepInput]):
    """Waits, beside whatever runs, until no turn does and a message is queued or the session is to end.

    One execution of it waits at any time until the session ends. A message that comes while the session is
    idle begins its turn by itself and leaves this Step waiting.

    Durability:
        Taking a message and beginning its turn is one commit: a crash takes it again or not at all.
    """

    def __init__(self, runtime: SessionRuntime, graph: FlowGraph) -> None:
        """Bind the Step to its Flow."""
        self._runtime = runtime
        self._graph = graph

    def wait_for(self, context: Context, input: IdleStepInput) -> Wait:
        """Wait until there may be something to do and nothing else is being done."""
        return Wait.all_of(WAKE_UPS.for_one(), IDLE.for_one())

    async def execute(self, context: AsyncContext, input: IdleStepInput) -> StepDecision:
        """End the session, take the oldest message, or wait again."""
        if CLOSING.get(context):
            return go_to_many(self._graph.close_session())
        for item in load_inbox(context).waits_for_turn:
            if item.value.message is not None:
                INBOX.delete(context, item.message_id)
                movement = take_message(
                    self._runtime, self._graph, context, load_record(context), item.value.message
                )
                return go_to_many(movement, self._graph.await_user_message())
        IDLE.publish(context, IdleToken())
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
