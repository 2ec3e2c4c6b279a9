"""What a runner is given: one turn as committed, and one tool call to run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.limits import MAX_IDENTIFIER_CHARACTERS
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.tools.builtin import BuiltInTool
from dex_agents.tools.effects import resolve_tool_policy
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.messages import AgentMessage
from dex_agents.wire.plans import AgentPlan, InteractionMode
from dex_agents.wire.tool_calls import AgentToolCall, Answer, ResolvedToolPolicy, ToolEffect, ToolPolicy

__all__ = ["AgentTurnContext", "DeferredToolExecution"]

_OUR_ENDING: Final = re.compile(r"#\d+$")
_MAX_MODEL_CALL_ID_CHARACTERS: Final = MAX_IDENTIFIER_CHARACTERS - 16
"""Leaves room for the `#<k>` that makes an ID unique."""


@dataclass(frozen=True, kw_only=True)
class AgentTurnContext:
    """One turn as it is committed; the only thing a model call may be built from.

    Attributes:
        flow_id: The session ID.
        turn_id: `turn-<n>`.
        attempt: Which attempt of this `RunModel` Step it is, from 1.
        messages: Every message that the model is to read, in sequence order: all that are stored, this turn's
            user message included, or the ones behind those that `context_summary` covers.
        framework_run_state: What the latest `ToolCallsRequested` or `TurnContinued` of this turn left, or
            `None` for the turn's first model call.
        tool_calls: This turn's records in the order in which the calls were asked; all final when
            `run_model_step` runs.
        events: Speaks to live viewers.
        tool_policies: The session's policies by tool name; they win over a tool's own declaration.
        default_tool_effect: The effect of a tool that declares none.
        used_tool_call_ids: Every tool call ID that the session has used, as far as `messages` and this turn
            show.
        session_settings: The settings as they are now; `{}` when there are none.
        interaction_mode: `plan` when the turn is to write a plan and run nothing.
        plan: The latest plan, or `None`.
        built_in_tools: The tools that the session itself runs, to be offered as they are; a call of one is
            deferred like any other.
        context_summary: What stands for the messages that are not in `messages`, or `None`.
        context_window_tokens: How many input tokens the model call may have; `None` when nobody set a bound,
            and then nobody asks for an estimate.
        input_token_anchor: What the latest outcome with one left for the next estimate, or `None`.
        first_tool_call_number: From which number on `#<k>` makes an ID unique. Above 1 when the IDs of
            earlier calls are not known any more: then every new ID has a number.
    """

    flow_id: str
    turn_id: str
    attempt: int
    messages: Sequence[AgentMessage]
    framework_run_state: str | None
    tool_calls: Sequence[AgentToolCall]
    events: AgentEventWriter
    tool_policies: Mapping[str, ToolPolicy]
    default_tool_effect: ToolEffect
    used_tool_call_ids: Collection[str]
    session_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    interaction_mode: InteractionMode = "default"
    plan: AgentPlan | None = None
    built_in_tools: Sequence[BuiltInTool] = ()
    context_summary: ContextSummary | None = None
    context_window_tokens: int | None = None
    input_token_anchor: str | None = None
    first_tool_call_number: int = 1
    _assigned: set[str] = field(default_factory=set[str], repr=False, compare=False)

    @property
    def is_resuming(self) -> bool:
        """Whether an earlier model call of this turn was committed."""
        return self.framework_run_state is not None

    def recorded_tool_call(self, tool_call_id: str) -> AgentToolCall | None:
        """Return this turn's record of a call, or `None`."""
        return next((call for call in self.tool_calls if call.tool_call_id == tool_call_id), None)

    def resolve_tool_policy(
        self, tool_name: str, declared: ToolEffect | None = None, requires_approval: bool | None = None
    ) -> ResolvedToolPolicy:
        """Merge a tool's declaration with the session's policy for it.

        Args:
            tool_name: The name that policies are keyed by.
            declared: The effect the tool declares; `None` for the session's default.
            requires_approval: What the tool declares; `None` follows the effect.
        """
        return resolve_tool_policy(
            declared if declared is not None else self.default_tool_effect,
            requires_approval,
            self.tool_policies.get(tool_name),
        )

    def assign_tool_call_id(self, model_call_id: str) -> str:
        """Return an ID for a new call that no call of the session has.

        It is the model's ID, or that with `#<k>` when the model repeats itself or gives none, may have used
        the ID in messages that a summary covers, or spells an ID that ends like one of ours; a very long ID
        is cut first. The same committed state and the same calls in the same order give the same IDs.
        """
        printable = "".join(
            one if one.isprintable() else "_" for one in replace_lone_surrogates(model_call_id)
        )
        base = printable[:_MAX_MODEL_CALL_ID_CHARACTERS] if printable.strip() else "call"
        k = self.first_tool_call_number
        is_like_ours = _OUR_ENDING.search(base) is not None
        candidate = base if k == 1 and not is_like_ours else f"{base}#{k}"
        while candidate in self.used_tool_call_ids or candidate in self._assigned:
            k += 1
            candidate = f"{base}#{k}"
        self._assigned.add(candidate)
        return candidate


@dataclass(frozen=True, kw_only=True)
class DeferredToolExecution:
    """One tool call to run, inside its own Step.

    Attributes:
        flow_id: The session ID.
        turn_id: The turn that asked.
        tool_call_id: The call.
        tool_name: The tool as the model named it.
        arguments: The JSON text to run.
        effect: After policies; it chose the tool Step.
        attempt: Which attempt of the tool Step it is, from 1.
        idempotency_key: `<session>/<turn>/<tool call>`: the same on every attempt and unique to the call.
            Opaque to receivers.
        events: Speaks to live viewers.
        heartbeat: Tells the engine that the attempt is alive and keeps a JSON value for the next attempt.
            The session sends plain heartbeats by itself.
        cancelled: Set when the turn is cancelled while the tool runs on this Worker; a tool that can stop
            early may look at it.
        tool_source_reference: What the call was deferred with.
        answers: What a person answered to the tool's own questions so far, by question ID.
        continuation: What the tool left when it asked last, or `None` when it has not asked.
        task_reference: The remote task that the call started, or `None`.
    """

    flow_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    arguments: str
    effect: ToolEffect
    attempt: int
    idempotency_key: str
    events: AgentEventWriter
    heartbeat: Callable[[str], Awaitable[None]]
    cancelled: asyncio.Event
    tool_source_reference: str | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    continuation: str | None = None
    task_reference: str | None = None
