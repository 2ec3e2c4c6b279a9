"""What a model call is given, as the scripted model reads it: question, results, and earlier questions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from dex_agents.builtin_loop import (
    ModelOutputItem,
    ModelRequest,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)

__all__ = ["Conversation", "ToolResult", "read_conversation"]


@dataclass(frozen=True)
class ToolResult:
    """One finished call of this turn.

    Attributes:
        tool_name: What was called.
        arguments: With what.
        output: What came back.
        answer: The output as a JSON object; `None` when it is a sentence about a call that did not succeed.
    """

    tool_name: str
    arguments: dict[str, Any]
    output: str
    answer: dict[str, Any] | None


@dataclass(frozen=True)
class Conversation:
    """Everything that the next answer may be made from.

    Attributes:
        question: The user's latest message.
        results: The finished calls of this turn, in the asked order.
        earlier_questions: The user's earlier messages, oldest first.
        may_call_tools: Whether tools are offered.
    """

    question: str
    results: tuple[ToolResult, ...]
    earlier_questions: tuple[str, ...]
    may_call_tools: bool

    def results_of(self, tool_name: str) -> list[ToolResult]:
        """Return this turn's results of one tool, in the asked order."""
        return [result for result in self.results if result.tool_name == tool_name]


def read_conversation(request: ModelRequest) -> Conversation:
    """Read a request; the results after its last user text are those of the running turn."""
    questions: list[str] = []
    results: list[ToolResult] = []
    open_calls: list[ModelToolCall] = []
    for item in request.items:
        match item:
            case ModelUserTextItem(text=text):
                questions.append(text)
                results.clear()
            case ModelOutputItem(tool_calls=calls):
                open_calls = list(calls)
            case ModelToolResultItem(output=output):
                call = open_calls.pop(0)
                arguments = _read_object(call.arguments) or {}
                results.append(ToolResult(call.tool_name, arguments, output, _read_object(output)))
    return Conversation(questions[-1], tuple(results), tuple(questions[:-1]), bool(request.tools))


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
