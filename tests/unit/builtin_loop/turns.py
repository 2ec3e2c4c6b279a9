"""Turns as a session would hand them to a runner, and what becomes of the runner's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from dex_agents.builtin_loop import BuiltinLoopAgentRunner, ModelRequest, ScriptedModelReply
from dex_agents.runner.outcomes import AgentTurnOutcome, DeferredToolCall, ToolCallsRequested, TurnCompleted
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.tools.builtin import BuiltInTool
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.plans import AgentPlan, InteractionMode
from dex_agents.wire.tool_calls import AgentToolCall, ToolCallStatus, ToolEffect, ToolPolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class RecordedEvents:
    """An event writer that keeps what was written."""

    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    progress: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def write_text_delta(self, text: str) -> None:
        self.text.append(text)

    def write_reasoning_delta(self, text: str) -> None:
        self.reasoning.append(text)

    def write_tool_progress(self, tool_call_id: str, text: str) -> None:
        self.progress.append((tool_call_id, text))


class RecordedScript:
    """A script that gives its replies one after the other and keeps the requests."""

    def __init__(self, *replies: ScriptedModelReply | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ScriptedModelReply:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@dataclass
class Conversation:
    """The committed state of one session, moved on by hand."""

    runner: BuiltinLoopAgentRunner
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    calls: list[AgentToolCall] = field(default_factory=list[AgentToolCall])
    turn_number: int = 0
    framework_run_state: str | None = None
    events: RecordedEvents = field(default_factory=RecordedEvents)
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict[str, ToolPolicy])
    session_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    built_in_tools: Sequence[BuiltInTool] = ()
    interaction_mode: InteractionMode = "default"
    plan: AgentPlan | None = None

    @property
    def turn_id(self) -> str:
        return f"turn-{self.turn_number}"

    @property
    def turn_messages(self) -> list[FrameworkMessage]:
        return [
            FrameworkMessage(
                role=message.role,
                framework_item=message.framework_item,
                text=message.text,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                tool_arguments=message.tool_arguments,
                tool_output=message.tool_output,
            )
            for message in self.messages
            if message.turn_id == self.turn_id
        ]

    def begin_turn(self, text: str, images: tuple[AgentImageReference, ...] = ()) -> None:
        self.turn_number += 1
        self.framework_run_state = None
        if images:
            self.store([self.runner.build_user_message_with_images(text, images)])
        else:
            self.store([self.runner.build_user_message(text)])

    def store(self, new_messages: Sequence[FrameworkMessage]) -> None:
        for message in new_messages:
            self.messages.append(
                AgentMessage(
                    sequence=self.messages[-1].sequence + 1 if self.messages else 1,
                    turn_id=self.turn_id,
                    stored_at=NOW,
                    **msgspec.structs.asdict(message),
                )
            )

    def build_turn(self, attempt: int = 1) -> AgentTurnContext:
        return AgentTurnContext(
            flow_id="session-1",
            turn_id=self.turn_id,
            attempt=attempt,
            messages=tuple(self.messages),
            framework_run_state=self.framework_run_state,
            tool_calls=tuple(call for call in self.calls if call.turn_id == self.turn_id),
            events=self.events,
            tool_policies=self.tool_policies,
            default_tool_effect=ToolEffect.UNCLASSIFIED,
            used_tool_call_ids={call.tool_call_id for call in self.calls},
            session_settings=self.session_settings,
            built_in_tools=self.built_in_tools,
            interaction_mode=self.interaction_mode,
            plan=self.plan,
        )

    async def run_model(self, attempt: int = 1) -> AgentTurnOutcome:
        """Run one model step and commit what it led to."""
        outcome = await self.runner.run_model_step(self.build_turn(attempt))
        self.commit(outcome)
        return outcome

    def commit(self, outcome: AgentTurnOutcome) -> None:
        """Store what a model step led to."""
        self.store(outcome.new_messages)
        if isinstance(outcome, ToolCallsRequested):
            self.framework_run_state = outcome.framework_run_state
            self.calls.extend(_record(call, self.turn_id) for call in outcome.tool_calls)

    async def ask_for_tools(self) -> ToolCallsRequested:
        outcome = await self.run_model()
        assert isinstance(outcome, ToolCallsRequested)
        return outcome

    async def complete(self) -> TurnCompleted:
        outcome = await self.run_model()
        assert isinstance(outcome, TurnCompleted)
        return outcome

    def finish_call(
        self,
        tool_call_id: str,
        output: str | None = None,
        *,
        status: ToolCallStatus = "succeeded",
        error: str | None = None,
        images: tuple[AgentImageReference, ...] = (),
    ) -> AgentToolCall:
        """Give a call its final record."""
        index = next(n for n, call in enumerate(self.calls) if call.tool_call_id == tool_call_id)
        self.calls[index] = msgspec.structs.replace(
            self.calls[index], status=status, output=output, error=error, images=images, finished_at=NOW
        )
        return self.calls[index]


def _record(call: DeferredToolCall, turn_id: str) -> AgentToolCall:
    return AgentToolCall(
        tool_call_id=call.tool_call_id,
        model_call_id=call.model_call_id,
        turn_id=turn_id,
        response_index=1,
        tool_name=call.tool_name,
        arguments=call.arguments,
        effect=call.policy.effect,
        status="failed" if call.refusal is not None else "not_run" if call.not_run_reason else "running",
        error=call.refusal or call.not_run_reason,
        requested_at=NOW,
        effective_arguments=call.effective_arguments,
        ordered=call.ordered,
        tool_source_reference=call.tool_source_reference,
        reconcilable=call.reconcilable,
    )


def build_execution(tool_name: str, arguments: str = "{}", **changes: Any) -> DeferredToolExecution:
    """A tool call as its Step would run it."""

    async def heartbeat(details: str) -> None:
        heartbeats.append(details)

    heartbeats: list[str] = []
    fields: dict[str, Any] = {
        "flow_id": "session-1",
        "turn_id": "turn-1",
        "tool_call_id": "call_1",
        "effect": ToolEffect.READ,
        "attempt": 1,
        "idempotency_key": "session-1/turn-1/call_1",
        "events": RecordedEvents(),
        "heartbeat": heartbeat,
        "cancelled": asyncio.Event(),
    }
    return DeferredToolExecution(tool_name=tool_name, arguments=arguments, **(fields | changes))
