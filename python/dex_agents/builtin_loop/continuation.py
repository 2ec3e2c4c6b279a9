"""Ending or continuing a turn: what the application says at the end of each iteration of the loop.

An iteration is one model call and the tool calls that it asked for.

| The iteration | `"end"` | `ContinueTurn` | `"default"`, or no hook |
| --- | --- | --- | --- |
| the model called tools | the turn completes, no further model call | the message follows the results, and the model is called with both | the model is called with the results |
| the model answered | the turn completes | answer and message are stored, and the model is called again in the same turn | the turn completes |
"""  # noqa: E501  # a table row is one line

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from dex_agents import limits
from dex_agents.builtin_loop.contract import ModelOutputItem, ModelToolCall, ModelToolResultItem
from dex_agents.builtin_loop.input_items import find_latest_output
from dex_agents.builtin_loop.stored_items import StoredToolCall
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import InvalidInputError, RunnerContractError
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.wire.messages import FrameworkMessage
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "MAX_CONSECUTIVE_TURN_CONTINUATIONS",
    "ContinueTurn",
    "TurnContinuation",
    "TurnContinuationContext",
    "TurnContinuationHook",
    "ask_continuation_hook",
    "describe_answer",
    "describe_tool_iteration",
]

MAX_CONSECUTIVE_TURN_CONTINUATIONS: Final = 8
"""Continuations that may follow each other after answers without tools; a tool call begins the count anew."""


@dataclass(frozen=True)
class ContinueTurn:
    """Goes on with the turn.

    Attributes:
        message: What the model reads next, stored as user text of the same turn; not blank, at most
            `limits.MAX_USER_TEXT_BYTES` as UTF-8.
        action: Always `continue`.

    Raises:
        InvalidInputError: The message breaks a rule; inside a hook that fails the attempt.
    """

    message: str
    action: Literal["continue"] = "continue"

    def __post_init__(self) -> None:
        """Check the message."""
        message: Any = self.message
        if not isinstance(message, str) or not message.strip():
            raise InvalidInputError("message", "must be text that is not blank")
        size = len(replace_lone_surrogates(message).encode())
        if size > limits.MAX_USER_TEXT_BYTES:
            raise InvalidInputError("message", f"has {size} bytes, the limit is {limits.MAX_USER_TEXT_BYTES}")


TurnContinuation: TypeAlias = ContinueTurn | Literal["end", "default"]
"""What a hook returns."""


@dataclass(frozen=True, kw_only=True)
class TurnContinuationContext:
    """The iteration that just ended.

    Attributes:
        flow_id: The session ID.
        turn_id: The turn, `turn-<n>`.
        session_settings: The settings as the iteration's model call had them; `{}` when there are none.
        model_output: What the model answered.
        tool_results: What its calls led to, in the asked order; empty when it answered without tools.
        tool_calls: The records of those calls in the same order; they say which succeeded.
    """

    flow_id: str
    turn_id: str
    session_settings: Mapping[str, Any]
    model_output: Sequence[ModelOutputItem]
    tool_results: Sequence[ModelToolResultItem] = ()
    tool_calls: Sequence[AgentToolCall] = ()


TurnContinuationHook: TypeAlias = Callable[
    [TurnContinuationContext], TurnContinuation | Awaitable[TurnContinuation]
]
"""Decides whether a turn ends or goes on; sync or async.

Durability:
    Runs inside `RunModel`, and again with each of its attempts: keep it free of side effects. After an answer
    a repeat is a repeat of the model call too. What it raises, and any other value, fails the attempt.
"""


async def ask_continuation_hook(
    hook: TurnContinuationHook | None, context: TurnContinuationContext
) -> TurnContinuation:
    """Return what the hook says, `default` without one.

    Args:
        hook: The application's.
        context: The iteration.

    Raises:
        RunnerContractError: It returned something else than it may.
    """
    if hook is None:
        return "default"
    returned: Any = hook(context)
    decision: Any = await returned if inspect.isawaitable(returned) else returned
    match decision:
        case ContinueTurn():
            return decision
        case "end":
            return "end"
        case "default":
            return "default"
        case _:
            pass
    shown = repr(decision) if isinstance(decision, str) else f"a {type(decision).__name__}"
    raise RunnerContractError(
        f"decide_turn_continuation returned {shown}; it may return 'end', 'default' or a ContinueTurn"
    )


def describe_answer(turn: AgentTurnContext, text: str) -> TurnContinuationContext:
    """Return the iteration of an answer without tools."""
    return TurnContinuationContext(
        flow_id=turn.flow_id,
        turn_id=turn.turn_id,
        session_settings=turn.session_settings,
        model_output=(ModelOutputItem(text),),
    )


def describe_tool_iteration(
    turn: AgentTurnContext, results: Sequence[FrameworkMessage]
) -> TurnContinuationContext:
    """Return the iteration of the turn's latest answer, whose calls have ended.

    Args:
        turn: The turn, with the final records of those calls.
        results: What the model is to read of them, in the asked order.
    """
    output = find_latest_output([one for one in turn.messages if one.turn_id == turn.turn_id])
    model_call_ids = {call.tool_call_id: call.model_call_id for call in output.tool_calls}
    records = (turn.recorded_tool_call(message.tool_call_id or "") for message in results)
    return TurnContinuationContext(
        flow_id=turn.flow_id,
        turn_id=turn.turn_id,
        session_settings=turn.session_settings,
        model_output=(ModelOutputItem(output.text or "", tuple(map(_as_model_call, output.tool_calls))),),
        tool_results=tuple(
            ModelToolResultItem(
                model_call_ids.get(message.tool_call_id or "", ""),
                message.tool_name or "",
                message.tool_output or "",
            )
            for message in results
        ),
        tool_calls=tuple(record for record in records if record is not None),
    )


def _as_model_call(call: StoredToolCall) -> ModelToolCall:
    return ModelToolCall(call.model_call_id, call.tool_name, call.arguments)
