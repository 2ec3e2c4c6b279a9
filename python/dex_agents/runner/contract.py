"""What a framework implements to run inside a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    SummarizedContext,
    ToolOutcome,
    ToolReconciliation,
)
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "AcceptsImages",
    "AgentFrameworkRunner",
    "CompactsContext",
    "ContextSummaryRequest",
    "EditsToolArguments",
    "PollsToolTasks",
    "ReconcilesToolCalls",
    "SupportsPlanMode",
]


class AgentFrameworkRunner(Protocol):
    """Thinks for a session: one model call at a time, one tool call at a time.

    One runner serves every session of its Flow type at once, so it keeps no session's state in itself.
    """

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Make at most one model call and say what follows.

        Build the call from `turn` alone. Raise for an unexpected failure.

        Args:
            turn: The turn as committed.

        Durability:
            Runs inside `RunModel`. After a crash or an exception it runs again from the same committed state,
            up to `limits.MAX_MODEL_CALL_ATTEMPTS` times; then the turn fails and the session goes on.
        """
        ...

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        """Run one tool call, or go on with one that has asked a person.

        Args:
            call: The call as committed.

        Raises:
            ToolExecutionError: The outcome is known and final: recorded `failed`, not retried.
            ToolOutcomeUnknownError: It may have taken effect: recorded `outcome_unknown`, never sent again.

        Durability:
            Runs inside `CallTool` or `CallSingleAttemptTool`, chosen by the effect. Any other exception, and
            a lost Worker, is a failed attempt: repeated for `read` and `idempotent_write`, recorded
            `outcome_unknown` for the others.
        """
        ...

    def build_user_message(self, text: str) -> FrameworkMessage:
        """Return a user's text as a message of the framework; pure."""
        ...

    def build_unfinished_turn_messages(
        self, turn_messages: Sequence[FrameworkMessage], open_calls: Sequence[AgentToolCall], note: str
    ) -> Sequence[FrameworkMessage]:
        """Return what closes the transcript of a turn that failed or was cancelled; pure.

        Args:
            turn_messages: This turn's stored messages, in order.
            open_calls: Final records of calls whose result is not among those messages, in the asked order.
            note: One sentence on why the turn ended.

        Returns:
            A result for each of `open_calls`, then the note: after them every stored call has its result.
        """
        ...


@runtime_checkable
class AcceptsImages(Protocol):
    """A runner whose model can be shown images; without it the session refuses messages that have any."""

    @property
    def accepts_images(self) -> bool:
        """Whether it can: a media store is there to read them from."""
        ...

    def build_user_message_with_images(
        self, text: str, images: tuple[AgentImageReference, ...]
    ) -> FrameworkMessage:
        """Return a user's text and images as a message of the framework; pure.

        Args:
            text: The text.
            images: At least one; valid references, whose bytes may still be missing.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ContextSummaryRequest:
    """A part of the conversation that is to be summarised.

    Attributes:
        flow_id: The session ID.
        turn_id: The turn whose model call needs the room.
        attempt: Which attempt of this `RunModel` Step it is, from 1.
        messages: What the new summary is to cover beyond the earlier one, in sequence order; at least one.
        earlier_summary: The summary so far, which the new one replaces and has to hold too; `None` for the
            first one.
        session_settings: The settings as they are now; `{}` when there are none.
    """

    flow_id: str
    turn_id: str
    attempt: int
    messages: Sequence[AgentMessage]
    earlier_summary: ContextSummary | None = None
    session_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class CompactsContext(Protocol):
    """A runner that can keep its model's input below a bound; what a `CompactionPolicy` needs.

    `AgentTurnContext.messages` and `context_summary` are then what `run_model_step` builds the input from.
    """

    async def estimate_input_tokens(self, turn: AgentTurnContext) -> int:
        """Return about how many input tokens the turn's next model call will take.

        Durability:
            Runs inside `RunModel`, before the model call and again with each attempt; must change nothing.
        """
        ...

    def choose_compaction_cut(self, turn: AgentTurnContext, retained_tokens: int) -> int | None:
        """Choose what a summary is to cover; pure.

        Args:
            turn: The turn as committed.
            retained_tokens: About how many tokens of messages are to be kept as they are.

        Returns:
            The sequence number of the last message to cover, below that of the last one of `turn.messages`;
            `None` when nothing can be covered. No call may be separated from its result, and the latest
            answer is never covered while one of its calls has no stored result.
        """
        ...

    async def summarize_context(self, request: ContextSummaryRequest) -> SummarizedContext:
        """Summarise a part of the conversation in one model call that offers no tools.

        Args:
            request: What to summarise.

        Durability:
            Runs inside `RunModel`; the summary is committed before the turn's model call is made, so a crash
            repeats at most this call. Whatever it raises, and a blank text, leaves the conversation as it is:
            the next model call of the session asks again.
        """
        ...


@runtime_checkable
class EditsToolArguments(Protocol):
    """A runner that can check arguments which a person changed before approving."""

    def prepare_tool_arguments(
        self, tool_name: str, arguments: str, tool_source_reference: str | None
    ) -> str:
        """Return the JSON text that would run for these arguments.

        Raises:
            InvalidInputError: The arguments do not fit the tool; the text says where.
        """
        ...


@runtime_checkable
class SupportsPlanMode(Protocol):
    """A runner that can run a turn which only writes a plan; see `AgentTurnContext.interaction_mode`."""

    @property
    def supports_plan_mode(self) -> bool:
        """Whether it can."""
        ...


@runtime_checkable
class ReconcilesToolCalls(Protocol):
    """A runner whose tools can look up what became of a call whose outcome is unknown."""

    async def reconcile_tool_call(self, call: DeferredToolExecution) -> ToolReconciliation:
        """Find out whether a call took effect; must change nothing.

        Args:
            call: The call as it was run; `idempotency_key` is the same.

        Durability:
            Runs inside `ReconcileToolCall`. An exception or a lost Worker repeats it, up to
            `limits.MAX_TOOL_CALL_ATTEMPTS` times; then the outcome stays unknown.
        """
        ...


@runtime_checkable
class PollsToolTasks(Protocol):
    """A runner whose tools start tasks on other servers."""

    async def poll_tool_task(self, call: DeferredToolExecution) -> ToolOutcome:
        """Ask how a task is getting on.

        Args:
            call: The call that started it; `task_reference` names it, and `answers` and `continuation` hold
                what a person answered since the task asked.

        Returns:
            The result, questions of the task to a person, or `ToolTaskStarted` while it goes on.

        Raises:
            ToolExecutionError: The task failed, or the server does not know it and it changed nothing.
            ToolOutcomeUnknownError: It may have taken effect.

        Durability:
            Runs inside `PollToolTask`. Any other exception is a poll that did not reach the server: the next
            one follows, and after `limits.MAX_TASK_POLL_FAILURES` in a row the task is given up.
        """
        ...

    async def cancel_tool_task(self, call: DeferredToolExecution) -> None:
        """Ask the server to stop a task; any answer will do, and a repeat must be harmless.

        Durability:
            Runs when a turn is cancelled or steered; a failure is not repeated.
        """
        ...
