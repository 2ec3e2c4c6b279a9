"""Tool calls: effects, policies, and the record that follows one call from intent to outcome."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final, Literal

import msgspec

from dex_agents.wire.images import AgentImageReference

__all__ = [
    "FINAL_TOOL_CALL_STATUSES",
    "AgentToolCall",
    "Answer",
    "ApprovalDecision",
    "ResolvedToolPolicy",
    "ToolApproval",
    "ToolCallStatus",
    "ToolEffect",
    "ToolPolicy",
    "ToolSettlement",
]


class ToolEffect(enum.StrEnum):
    """What running a tool twice would mean; declared in order of caution."""

    READ = "read"
    """Changes nothing; may run again."""

    IDEMPOTENT_WRITE = "idempotent_write"
    """Changes something, and the receiver recognises a repeat by its idempotency key; may run again."""

    NON_IDEMPOTENT_WRITE = "non_idempotent_write"
    """Changes something each time: one attempt, and a person approves unless a policy says otherwise."""

    UNCLASSIFIED = "unclassified"
    """Nobody said: treated as `non_idempotent_write`."""

    @property
    def may_run_again(self) -> bool:
        """Whether a failed or lost attempt may be repeated."""
        return self in (ToolEffect.READ, ToolEffect.IDEMPOTENT_WRITE)

    @property
    def is_write(self) -> bool:
        """Whether a call may have changed something."""
        return self is not ToolEffect.READ


class ToolPolicy(msgspec.Struct, frozen=True):
    """What an application says about a tool; wins over the tool's own declaration.

    Attributes:
        effect: Replaces the declared effect; `None` keeps it.
        requires_approval: Whether a person is asked first; `None` follows the effect.
    """

    effect: ToolEffect | None = None
    requires_approval: bool | None = None


class ResolvedToolPolicy(msgspec.Struct, frozen=True):
    """What applies to one call after declaration and policy were merged.

    Attributes:
        effect: Picks the tool Step and its retries.
        requires_approval: Whether the call waits for a person.
    """

    effect: ToolEffect
    requires_approval: bool


ToolCallStatus = Literal[
    "pending",
    "waiting_for_approval",
    "waiting_for_answer",
    "waiting_for_time",
    "running",
    "polling",
    "succeeded",
    "failed",
    "rejected",
    "not_run",
    "outcome_unknown",
]
"""Where a call stands.

The last five are final and never confused: *known* (`succeeded`, `failed`), *never sent* (`rejected`,
`not_run`, the latter also for a read that a cancellation stopped), *unknown* (`outcome_unknown`). `pending`
waits for an earlier write; `running` has its tool Step scheduled; `polling` waits on a remote task.
"""

FINAL_TOOL_CALL_STATUSES: Final[frozenset[ToolCallStatus]] = frozenset(
    ("succeeded", "failed", "rejected", "not_run", "outcome_unknown")
)

ApprovalDecision = Literal["approve", "reject"]


class ToolApproval(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person decided about a call.

    Attributes:
        decision: Run it or not.
        decided_at: When the decision was committed.
        reason: Their words, shown to the model on a rejection.
        edited: Whether they changed the arguments.
    """

    decision: ApprovalDecision
    decided_at: datetime
    reason: str | None = None
    edited: bool = False


Answer = str | tuple[str, ...]
"""What a person answered to one question: a text, or several where several were allowed."""


class ToolSettlement(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an unknown outcome became known.

    Attributes:
        settled_at: When it was committed.
        settled_by: `person` through `settle_tool_outcome`, `reconcile` through the tool's own look-up.
        unknown_because: Why the outcome was unknown.
        person: Who, when the command said so.
    """

    settled_at: datetime
    settled_by: Literal["person", "reconcile"]
    unknown_because: str
    person: str | None = None


class AgentToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The durable record of one tool call, written before the tool is entered.

    Attributes:
        tool_call_id: Ours, unique in the session: the model's ID, or that with `#<k>` when it repeats one.
        model_call_id: The model's own ID, sent back to the provider.
        turn_id: The turn that asked.
        response_index: Which model response of the turn asked, from 1.
        position: Place among the calls of that response, from 0.
        tool_name: The tool as the model named it.
        arguments: The model's original text.
        effect: After policies.
        status: See `ToolCallStatus`.
        requested_at: When the intent was committed.
        effective_arguments: The JSON text that runs, when it differs from `arguments`.
        ordered: Whether the call waits for the earlier ordered writes of its response.
        approval: What a person decided, once they have.
        output: For `succeeded`: what the tool returned.
        error: For every other final status: why.
        attempts: Attempts of the tool Step that were started, as far as known.
        started_at: When the attempt that ended the call began.
        finished_at: When the final status was committed.
        tool_source_reference: Opaque to the session; names the tool source that offered the tool.
        reconcilable: Whether the tool can look up what became of a call whose outcome is unknown.
        settlement: How an outcome that was unknown became known.
        input_answers: What a person answered to the tool's own questions so far, by question ID.
        input_continuation: What the tool left for itself when it asked last.
        input_rounds: How often the tool has asked.
        task_reference: Names the remote task that the call started.
        poll_failures: Polls of the task in a row that did not reach the server.
        images: For `succeeded`: what the tool returned beside its output.
    """

    tool_call_id: str
    model_call_id: str
    turn_id: str
    response_index: int
    tool_name: str
    arguments: str
    effect: ToolEffect
    status: ToolCallStatus
    requested_at: datetime
    effective_arguments: str | None = None
    position: int = 0
    ordered: bool = False
    approval: ToolApproval | None = None
    output: str | None = None
    error: str | None = None
    attempts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    tool_source_reference: str | None = None
    reconcilable: bool = False
    settlement: ToolSettlement | None = None
    input_answers: dict[str, Answer] = {}
    input_continuation: str | None = None
    input_rounds: int = 0
    task_reference: str | None = None
    poll_failures: int = 0
    images: tuple[AgentImageReference, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether nothing more can happen to this call."""
        return self.status in FINAL_TOOL_CALL_STATUSES

    @property
    def arguments_to_run(self) -> str:
        """The JSON text handed to the tool."""
        return self.arguments if self.effective_arguments is None else self.effective_arguments
