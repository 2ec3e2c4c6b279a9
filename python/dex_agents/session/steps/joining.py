"""What was accepted to join a running turn, taken from its Channels by the Step that makes the model call."""

from __future__ import annotations

from dataclasses import dataclass

from dex import AsyncContext, Context

from dex_agents import texts
from dex_agents.runner.contract import AgentFrameworkRunner
from dex_agents.session.persistence import SETTLED_OUTCOMES, STEERING
from dex_agents.session.transitions.joining import JoiningMessage
from dex_agents.wire.events import AgentEvent, ToolCallCompleted, UserMessageEvent
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["Joining", "load_joining", "load_steering"]


@dataclass(frozen=True)
class Joining:
    """What joins a turn with one Step.

    Attributes:
        messages: As the runner spells them: news about earlier calls first, then the user's messages.
        events: What viewers are told.
        steering_ids: The Channel's own IDs of the user's messages.
        settled_ids: The Channel's own IDs of the news.
    """

    messages: tuple[JoiningMessage, ...]
    events: tuple[AgentEvent, ...]
    steering_ids: tuple[str, ...] = ()
    settled_ids: tuple[str, ...] = ()

    def take(self, context: Context) -> None:
        """Remove them from their Channels, in the commit that stores them."""
        for message_id in self.steering_ids:
            STEERING.delete(context, message_id)
        for message_id in self.settled_ids:
            SETTLED_OUTCOMES.delete(context, message_id)


def load_joining(context: AsyncContext, runner: AgentFrameworkRunner) -> Joining:
    """Return everything that waits to join; both Channels must be loaded."""
    steering = load_steering(context, runner)
    settled = SETTLED_OUTCOMES.pending_messages(context)
    news = tuple(
        JoiningMessage(runner.build_user_message(_describe_settled(one.value.tool_call))) for one in settled
    )
    return Joining(
        messages=(*news, *steering.messages),
        events=(*(ToolCallCompleted(tool_call=one.value.tool_call) for one in settled), *steering.events),
        steering_ids=steering.steering_ids,
        settled_ids=tuple(one.message_id for one in settled),
    )


def load_steering(context: AsyncContext, runner: AgentFrameworkRunner) -> Joining:
    """Return the user's messages that wait to join; their Channel must be loaded."""
    pending = STEERING.pending_messages(context)
    return Joining(
        messages=tuple(
            JoiningMessage(runner.build_user_message(one.value.text), one.value.message_id) for one in pending
        ),
        events=tuple(
            UserMessageEvent(message_id=one.value.message_id, text=one.value.text) for one in pending
        ),
        steering_ids=tuple(one.message_id for one in pending),
    )


def _describe_settled(call: AgentToolCall) -> str:
    succeeded = call.status == "succeeded"
    output = call.output if succeeded else call.error
    return texts.outcome_settled(call.tool_name, call.tool_call_id, succeeded, output or "")
