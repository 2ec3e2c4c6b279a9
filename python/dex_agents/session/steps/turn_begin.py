"""The begin of a turn: a message is taken, and its turn runs in the same commit."""

from __future__ import annotations

from dex import Context, StepMovement

from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.persistence import INBOX
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.commit import commit_change
from dex_agents.session.transitions.turns import begin_turn
from dex_agents.session.user_messages import build_user_message
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.signals import InboxItem
from dex_agents.wire.step_inputs import TurnStepInput

__all__ = ["take_message"]


def take_message(
    runtime: SessionRuntime,
    graph: FlowGraph,
    context: Context,
    record: SessionRecord,
    message: QueuedMessage,
) -> StepMovement[TurnStepInput]:
    """Begin the turn of a message and return its first model call.

    The caller has taken the token of `IDLE` in the same commit, so no turn runs and none begins beside this.

    Args:
        runtime: The session Flow.
        graph: Which Step follows which.
        context: The Step attempt or the RPC.
        record: The session, without a running turn.
        message: What the turn answers.
    """
    change = begin_turn(record, message, build_user_message(runtime.runner, message), runtime.clock())
    record = commit_change(context, change)
    INBOX.publish(context, InboxItem(running_turn=change.running_turn.number))
    return graph.call_model(record, begins_turn=True)
