"""What one model call leads to."""

from __future__ import annotations

from typing import Literal

import msgspec

from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.interrupts import AgentQuestion
from dex_agents.wire.messages import FrameworkMessage
from dex_agents.wire.tool_calls import ResolvedToolPolicy
from dex_agents.wire.usage import AgentUsage

__all__ = [
    "AgentTurnOutcome",
    "DeferredToolCall",
    "ModelCallMetadata",
    "SummarizedContext",
    "ToolCallsRequested",
    "ToolExecutionResult",
    "ToolInputRequested",
    "ToolOutcome",
    "ToolReconciliation",
    "ToolTaskStarted",
    "TurnCompleted",
    "TurnContinued",
]


class DeferredToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the model asked for and the session is to run in its own Step.

    Attributes:
        tool_call_id: From `AgentTurnContext.assign_tool_call_id`.
        model_call_id: The model's own ID.
        tool_name: The tool as the model named it.
        arguments: The model's original text.
        policy: Effect and approval after policies were merged.
        effective_arguments: The JSON text to run, when it differs from `arguments`.
        ordered: Whether the call waits for the earlier ordered writes of its response.
        tool_source_reference: Given back with the execution; opaque to the session.
        refusal: Set when the call can never run (no such tool, arguments that do not fit): it is recorded
            `failed` with this text at once, nobody is asked and no tool Step runs.
        not_run_reason: Set when the call is not to run although it could: recorded `not_run` with this text.
        reconcilable: Whether `ReconcilesToolCalls` may look up what became of the call when its outcome is
            unknown.
    """

    tool_call_id: str
    model_call_id: str
    tool_name: str
    arguments: str
    policy: ResolvedToolPolicy
    effective_arguments: str | None = None
    ordered: bool = False
    tool_source_reference: str | None = None
    refusal: str | None = None
    not_run_reason: str | None = None
    reconcilable: bool = False


class ModelCallMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered a model call; never stored with the session, and `None` where a framework does not say.

    Attributes:
        request_model: The model that was asked for.
        response_model: The model that answered.
        provider_name: The provider.
        response_id: The provider's ID of the response.
        finish_reasons: The provider's words for why it stopped.
    """

    request_model: str | None = None
    response_model: str | None = None
    provider_name: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()


class SummarizedContext(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the request to summarise a part of the conversation.

    Attributes:
        text: The summary; a blank one changes nothing.
        usage: What the summary call consumed.
        model_call_metadata: Who answered.
    """

    text: str
    usage: AgentUsage
    model_call_metadata: ModelCallMetadata | None = None


class TurnCompleted(msgspec.Struct, frozen=True, kw_only=True):
    """The turn ends.

    Attributes:
        new_messages: Every message of the turn that was not stored yet, in order.
        usage: What this model call consumed.
        turn_error: Set to end the turn as failed, without a retry; the messages are stored all the same.
        input_token_anchor: What the next estimate of this session's input is to start from; `None` leaves the
            one before. Opaque to the session.
        model_call_metadata: Who answered the model call, or `None`.
    """

    new_messages: tuple[FrameworkMessage, ...]
    usage: AgentUsage
    turn_error: str | None = None
    input_token_anchor: str | None = None
    model_call_metadata: ModelCallMetadata | None = None


class ToolCallsRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The model asked for tools; it is called again when all of them have a final record.

    Attributes:
        framework_run_state: Given back to the next model call of the turn; not empty, opaque to the session.
        tool_calls: At least one, in the model's order.
        usage: What this model call consumed.
        new_messages: Messages to store now; a runner may also hold them back until the turn ends.
        input_token_anchor: What the next estimate of this session's input is to start from; `None` leaves the
            one before. Opaque to the session.
        model_call_metadata: Who answered the model call, or `None`.
    """

    framework_run_state: str
    tool_calls: tuple[DeferredToolCall, ...]
    usage: AgentUsage
    new_messages: tuple[FrameworkMessage, ...] = ()
    input_token_anchor: str | None = None
    model_call_metadata: ModelCallMetadata | None = None


class TurnContinued(msgspec.Struct, frozen=True, kw_only=True):
    """The model is called again in the same turn, without tools in between.

    Attributes:
        framework_run_state: Given back to the next model call of the turn; not empty, opaque to the session.
        new_messages: Messages to store now; the last one is a user message when the provider needs one.
        usage: What this model call consumed.
        input_token_anchor: What the next estimate of this session's input is to start from; `None` leaves the
            one before. Opaque to the session.
        model_call_metadata: Who answered the model call, or `None`.
    """

    framework_run_state: str
    new_messages: tuple[FrameworkMessage, ...]
    usage: AgentUsage
    input_token_anchor: str | None = None
    model_call_metadata: ModelCallMetadata | None = None


AgentTurnOutcome = TurnCompleted | ToolCallsRequested | TurnContinued
"""What `AgentFrameworkRunner.run_model_step` returns."""


class ToolExecutionResult(msgspec.Struct, frozen=True):
    """What a tool returned.

    Attributes:
        output: What the model reads; cut at `limits.MAX_TOOL_OUTPUT_BYTES`.
        images: What the model sees with it, from the agent's media store; at most
            `limits.MAX_IMAGES_PER_MESSAGE`.
    """

    output: str
    images: tuple[AgentImageReference, ...] = ()


class ToolInputRequested(msgspec.Struct, frozen=True):
    """The tool asks a person before it goes on; it runs again with the answers.

    A tool returns it before it has changed anything, or after a change that `continuation` lets it recognise:
    nothing that it did before asking is undone or remembered by the session.

    Attributes:
        questions: From 1 to `limits.MAX_QUESTIONS`, with different IDs. An ID that the tool used in
            an earlier round of this call replaces that answer.
        continuation: What the tool leaves for itself; at most `limits.MAX_TOOL_CONTINUATION_BYTES` as UTF-8.
    """

    questions: tuple[AgentQuestion, ...]
    continuation: str = ""


class ToolTaskStarted(msgspec.Struct, frozen=True):
    """The tool started a task on another server, or the task that is polled goes on.

    Attributes:
        task_reference: Names the task for `PollsToolTasks`; not empty, at most
            `limits.MAX_TASK_REFERENCE_BYTES` as UTF-8.
        poll_after_seconds: When to ask again; the engine counts whole seconds, from 1.
    """

    task_reference: str
    poll_after_seconds: float = 5.0


ToolOutcome = ToolExecutionResult | ToolInputRequested | ToolTaskStarted
"""What running a tool, or polling its task, leads to."""


class ToolReconciliation(msgspec.Struct, frozen=True):
    """What a look-up found about a call whose outcome is unknown.

    Attributes:
        outcome: Whether it took effect; `still_unknown` leaves the call `outcome_unknown`.
        text: For `succeeded` the output, for `failed` the reason, else ignored.
    """

    outcome: Literal["succeeded", "failed", "still_unknown"]
    text: str = ""

    @classmethod
    def succeeded(cls, output: str) -> ToolReconciliation:
        """The call took effect; the model reads `output` as its result."""
        return cls("succeeded", output)

    @classmethod
    def failed(cls, reason: str) -> ToolReconciliation:
        """The call took no effect and never will; the model reads why."""
        return cls("failed", reason)

    @classmethod
    def still_unknown(cls) -> ToolReconciliation:
        """The look-up found nothing that proves either."""
        return cls("still_unknown")
