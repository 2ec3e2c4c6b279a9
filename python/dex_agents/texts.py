"""Every sentence that a model reads or a record stores; `conformance/texts.json` pins them.

Once released, a sentence here outlives the code around it: stored transcripts hold it and models were
tuned on it.
"""

from __future__ import annotations

from typing import Final

from dex_agents import limits

__all__ = [
    "ARGUMENTS_NOT_AN_OBJECT",
    "ARGUMENTS_TOO_LONG",
    "EARLIER_CONVERSATION_NOT_SHOWN",
    "EMPTY_TOOL_OUTPUT",
    "OUTCOME_UNKNOWN_TOOL_RESULT",
    "SESSION_CLOSED_NOTE",
    "TURN_CANCELLED_NOTE",
    "UNREADABLE_MESSAGE",
    "arguments_cut_off",
    "arguments_not_json",
    "arguments_not_prepared",
    "arguments_number_out_of_range",
    "arguments_repeat_a_key",
    "arguments_too_deep",
    "empty_answer_error",
    "invalid_arguments",
    "output_cut_note",
    "tool_call_beyond_response_limit",
    "tool_call_cancelled",
    "tool_call_failed",
    "tool_call_not_run_after_failed_write",
    "tool_call_over_model_call_limit",
    "tool_call_rejected",
    "tool_call_stopped",
    "tool_not_available",
    "tool_result_not_json",
    "turn_failed_note",
    "unknown_tool",
]

OUTCOME_UNKNOWN_TOOL_RESULT: Final = (
    "It is not known whether this tool call took effect: it was interrupted and its result was lost. "
    "It was not sent again. Do not repeat it without first checking what happened."
)

EMPTY_TOOL_OUTPUT: Final = "(The tool returned no text.)"

UNREADABLE_MESSAGE: Final = "[A message here could not be read.]"

EARLIER_CONVERSATION_NOT_SHOWN: Final = "[The conversation before this is not shown.]"

ARGUMENTS_NOT_AN_OBJECT: Final = "they are not a JSON object"

ARGUMENTS_TOO_LONG: Final = f"they are longer than {limits.MAX_TOOL_ARGUMENTS_BYTES} bytes"

SESSION_CLOSED_NOTE: Final = "The session was closed before this message was answered."

TURN_CANCELLED_NOTE: Final = "The user cancelled this turn before it was finished."


def tool_call_failed(reason: str) -> str:
    """What the model reads when a call failed and nothing more is to come."""
    return f"The tool call failed: {reason}"


def tool_call_rejected(reason: str | None) -> str:
    """What the model reads when a person decided against the call."""
    if reason is None:
        return "The tool call was rejected by a person and was not run."
    return f"The tool call was rejected by a person and was not run. Their reason: {reason}"


def tool_call_not_run_after_failed_write(tool_call_id: str) -> str:
    """Why an ordered write was skipped."""
    return (
        f"The tool call was not run: the earlier write {tool_call_id} did not succeed, and writes of one "
        "response run in order."
    )


def tool_call_cancelled() -> str:
    """Why a call of a cancelled turn has no result."""
    return "The tool call was not run: the turn was cancelled."


def tool_call_stopped() -> str:
    """Why a read that was running when its turn was cancelled has no result."""
    return "The tool call was stopped before it returned anything: the turn was cancelled."


def tool_call_over_model_call_limit(limit: int) -> str:
    """Why the calls of the last model response of a turn were not run."""
    return f"The tool call was not run: this turn reached its limit of {limit} model calls."


def tool_call_beyond_response_limit(limit: int) -> str:
    """Why calls at the end of a very long response were not run."""
    return f"The tool call was not run: one response may ask for at most {limit} tool calls."


def unknown_tool(tool_name: str, available: tuple[str, ...]) -> str:
    """What the model reads when it named a tool that is not offered."""
    offered = ", ".join(available) if available else "none"
    return f"there is no tool named {tool_name!r}; available tools: {offered}"


def invalid_arguments(problem: str) -> str:
    """What the model reads when its arguments do not fit the tool's schema."""
    return f"invalid arguments: {problem}"


def output_cut_note(kept_bytes: int, total_bytes: int) -> str:
    """Appended to an output that was too long to store whole."""
    return f"\n[The output was cut: {kept_bytes} of {total_bytes} bytes are shown.]"


def turn_failed_note(reason: str) -> str:
    """The last message of a turn that could not be finished."""
    return f"This turn could not be finished: {reason}"


def empty_answer_error(attempts: int) -> str:
    """Why a turn failed when the model kept answering with nothing."""
    return f"the model returned neither text nor a tool call in {attempts} attempts"


def arguments_not_json(line: int, column: int) -> str:
    """What is wrong with arguments that JSON text cannot go on with at this character."""
    return f"they are not valid JSON, from line {line}, column {column} on"


def arguments_cut_off(line: int, column: int) -> str:
    """What is wrong with arguments that end where JSON text does not."""
    return (
        f"they are not valid JSON: they end too early, at line {line}, column {column}, "
        "and may have been cut off"
    )


def arguments_number_out_of_range(line: int, column: int) -> str:
    """What is wrong with arguments that hold a number without a finite value, or of too many digits."""
    return f"they hold a number that JSON cannot carry, at line {line}, column {column}"


def arguments_repeat_a_key(key: str, line: int, column: int) -> str:
    """What is wrong with arguments of which one key has two values."""
    return f"the key {key!r} appears twice in one object, again at line {line}, column {column}"


def arguments_too_deep(limit: int, line: int, column: int) -> str:
    """What is wrong with arguments that are nested too deeply."""
    return f"they are nested more than {limit} levels deep, from line {line}, column {column} on"


def arguments_not_prepared(reason: str) -> str:
    """What is wrong with arguments that the tool could not convert."""
    return f"they could not be converted: {reason}"


def tool_not_available(tool_name: str) -> str:
    """Why a call that was accepted cannot run any more."""
    return f"the tool {tool_name!r} is not available any more; it was not run"


def tool_result_not_json(reason: str) -> str:
    """Why a tool that ran to its end has no result to show."""
    return f"the tool ran to its end, but its result cannot be written as JSON: {reason}"
