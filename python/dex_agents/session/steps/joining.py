"""What was accepted to join a running turn, for the Step that makes the model call."""

from __future__ import annotations

from dataclasses import dataclass

from dex_agents import texts
from dex_agents.runner.contract import AgentFrameworkRunner
from dex_agents.session.steps.inbox import Inbox
from dex_agents.session.transitions.joining import JoiningMessage
from dex_agents.session.user_messages import build_user_message
from dex_agents.wire.events import AgentEvent, ToolCallCompleted, UserMessageEvent
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["Joining", "build_joining", "build_steering"]


@dataclass(frozen=True)
class Joining:
    """What joins a turn with one Step.

    Attributes:
        messages: As the runner spells them: news about earlier calls first, then the user's messages.
        events: What viewers are told.
    """

    messages: tuple[JoiningMessage, ...]
    events: tuple[AgentEvent, ...]


def build_joining(inbox: Inbox, runner: AgentFrameworkRunner) -> Joining:
    """Return everything that waits to join."""
    steering = build_steering(inbox, runner)
    settled = [item.value.settled for item in inbox.settled if item.value.settled is not None]
    news = (JoiningMessage(runner.build_user_message(_describe_settled(call))) for call in settled)
    return Joining(
        messages=(*news, *steering.messages),
        events=(*(ToolCallCompleted(tool_call=call) for call in settled), *steering.events),
    )


def build_steering(inbox: Inbox, runner: AgentFrameworkRunner) -> Joining:
    """Return the user's messages that wait to join."""
    messages = [item.value.message for item in inbox.steering if item.value.message is not None]
    return Joining(
        messages=tuple(JoiningMessage(build_user_message(runner, one), one.message_id) for one in messages),
        events=tuple(
            UserMessageEvent(message_id=one.message_id, text=one.text, images=one.images) for one in messages
        ),
    )


def _describe_settled(call: AgentToolCall) -> str:
    succeeded = call.status == "succeeded"
    output = call.output if succeeded else call.error
    return texts.outcome_settled(call.tool_name, call.tool_call_id, succeeded, output or "")
