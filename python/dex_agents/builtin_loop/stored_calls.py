"""The calls of a model's answer as they are stored: bounded, healed, and each with an ID of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dex_agents import limits
from dex_agents.builtin_loop.contract import ModelToolCall
from dex_agents.builtin_loop.stored_items import StoredToolCall
from dex_agents.builtin_loop.tool_arguments import is_longer_than
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.runner.turn_context import AgentTurnContext

__all__ = ["build_stored_calls"]

_KEPT_BYTES_OF_LONG_ARGUMENTS: Final = 16 * 1024


def build_stored_calls(turn: AgentTurnContext, asked: Sequence[ModelToolCall]) -> tuple[StoredToolCall, ...]:
    """Return the calls that a model asked for, in its order.

    Args:
        turn: Assigns the IDs.
        asked: What the model asked for, broken or not.
    """
    if not asked:
        return ()
    # Calls of an answer over the limit are stored without a record, so their IDs are taken too.
    taken = {message.tool_call_id for message in turn.messages if message.tool_call_id is not None}
    return tuple(_build_stored_call(turn, call, taken) for call in asked)


def _build_stored_call(turn: AgentTurnContext, call: ModelToolCall, taken: set[str]) -> StoredToolCall:
    model_call_id = replace_lone_surrogates(call.model_call_id[: limits.MAX_IDENTIFIER_CHARACTERS])
    tool_call_id = turn.assign_tool_call_id(model_call_id)
    while tool_call_id in taken:
        tool_call_id = turn.assign_tool_call_id(model_call_id)
    return StoredToolCall(
        tool_call_id=tool_call_id,
        model_call_id=model_call_id,
        tool_name=replace_lone_surrogates(call.tool_name[: limits.MAX_IDENTIFIER_CHARACTERS]),
        arguments=_storable_arguments(call.arguments),
    )


def _storable_arguments(arguments: str) -> str:
    """Return the model's text; of one over the limit the beginning, marked so that it is no JSON."""
    if not is_longer_than(arguments, limits.MAX_TOOL_ARGUMENTS_BYTES):
        return replace_lone_surrogates(arguments)
    beginning = replace_lone_surrogates(arguments[:_KEPT_BYTES_OF_LONG_ARGUMENTS])
    return f"{cut_to_bytes(beginning, _KEPT_BYTES_OF_LONG_ARGUMENTS)}..."
