"""What a finished tool call says to the model."""

from __future__ import annotations

from dex_agents import texts
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["describe_tool_result"]


def describe_tool_result(call: AgentToolCall) -> str:
    """Return the text that the model reads as the result of a call.

    A call without a final record reads as an unknown outcome: a provider is never sent a call without a
    result, and nothing better is known.
    """
    match call.status:
        case "succeeded":
            return call.output if call.output is not None else ""
        case "failed":
            return texts.tool_call_failed(call.error or "no reason was given")
        case "rejected" | "not_run":
            return call.error or texts.tool_call_cancelled()
        case _:
            return texts.OUTCOME_UNKNOWN_TOOL_RESULT
