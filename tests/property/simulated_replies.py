"""What the model of a simulated session says, and what people decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dex_agents.builtin_loop.input_items import (
    build_model_output_message,
    build_user_text_message,
)
from dex_agents.builtin_loop.stored_items import StoredModelOutput, StoredToolCall
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    DeferredToolCall,
    ToolCallsRequested,
    TurnCompleted,
    TurnContinued,
)
from dex_agents.session.state import TurnView
from dex_agents.session.transitions.turns import (
    first_tool_call_number,
    used_tool_call_ids,
)
from dex_agents.wire.messages import FrameworkMessage
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.tool_calls import ToolApproval
from dex_agents.wire.usage import AgentUsage
from tests.property.simulated_store import API, NOW, PROVIDER


def answer(
    text: str, error: str | None = None
) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        said = build_model_output_message(StoredModelOutput(PROVIDER, API, text=_storable(text)))
        return TurnCompleted(new_messages=(*results, said), usage=AgentUsage(model_calls=1), turn_error=error)

    return decide


def go_on(text: str) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        said = build_model_output_message(StoredModelOutput(PROVIDER, API, text=_storable(text)))
        more = build_user_text_message("go on")
        return TurnContinued(
            framework_run_state="x", new_messages=(*results, said, more), usage=AgentUsage(model_calls=1)
        )

    return decide


def ask_for(
    text: str, calls: Sequence[DeferredToolCall]
) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    """Ask for calls, each under an ID that the session has not used."""

    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        used = set(used_tool_call_ids(view))
        named: list[DeferredToolCall] = []
        for call in calls:
            k = first_tool_call_number(view)
            candidate = call.model_call_id if k == 1 else f"{call.model_call_id}#{k}"
            while candidate in used:
                k += 1
                candidate = f"{call.model_call_id}#{k}"
            used.add(candidate)
            named.append(msgspec.structs.replace(call, tool_call_id=candidate))
        stored = tuple(
            StoredToolCall(
                one.tool_call_id,
                one.model_call_id,
                one.tool_name,
                replace_lone_surrogates(one.arguments),
            )
            for one in named
        )
        said = build_model_output_message(
            StoredModelOutput(PROVIDER, API, text=_storable(text), tool_calls=stored)
        )
        return ToolCallsRequested(
            framework_run_state="x",
            tool_calls=tuple(named),
            usage=AgentUsage(model_calls=1),
            new_messages=(*results, said),
        )

    return decide


def _storable(text: str) -> str:
    return replace_lone_surrogates(text) if text.strip() else ""


def approval(*, approves: bool, edited: bool = False) -> ToolDecision:
    given = ToolApproval("approve" if approves else "reject", NOW, edited=edited)
    return ToolDecision(approval=given, effective_arguments='{"edited": true}' if edited else None)


def answers(text: str) -> ToolDecision:
    return ToolDecision(answers={"q": text})
