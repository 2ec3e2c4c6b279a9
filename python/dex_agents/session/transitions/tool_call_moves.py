"""The life of a tool call as a table: from which status which move leads where; `make graph` draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from dex_agents.errors import RunnerContractError
from dex_agents.wire.tool_calls import AgentToolCall, ToolCallStatus

__all__ = ["TOOL_CALL_MOVES", "ToolCallMove", "move_tool_call"]

ToolCallMove = Literal[
    "refuse",
    "withhold",
    "skip",
    "ask_approval",
    "ask_question",
    "wait",
    "write_plan",
    "release",
    "approve_ordered",
    "reject",
    "expire",
    "answer",
    "go_on",
    "go_on_polling",
    "time_over",
    "start_task",
    "poll_again",
    "succeed",
    "fail",
    "lose",
    "steer",
    "cancel",
    "stop",
    "settle_succeeded",
    "settle_failed",
]
"""`refuse`: it can never run. `withhold`: it is not to run. `skip`: the ordered write before it did not
succeed. `expire`: nobody decided in time. `go_on`: the tool runs again with answers. `lose`: it may have
taken effect. `steer`, `cancel`: the user wanted something else, or nothing; `stop` is that for a read that
runs."""

TOOL_CALL_MOVES: Final[Mapping[ToolCallStatus, Mapping[ToolCallMove, ToolCallStatus]]] = {
    "pending": {
        "refuse": "failed",
        "withhold": "not_run",
        "write_plan": "succeeded",
        "ask_approval": "waiting_for_approval",
        "ask_question": "waiting_for_answer",
        "wait": "waiting_for_time",
        "release": "running",
        "skip": "not_run",
        "cancel": "not_run",
    },
    "waiting_for_approval": {
        "approve_ordered": "pending",
        "release": "running",
        "reject": "rejected",
        "expire": "rejected",
        "skip": "not_run",
        "steer": "not_run",
        "cancel": "not_run",
    },
    "waiting_for_answer": {
        "answer": "succeeded",
        "go_on": "running",
        "go_on_polling": "polling",
        "steer": "not_run",
        "cancel": "not_run",
        "lose": "outcome_unknown",
    },
    "waiting_for_time": {
        "time_over": "succeeded",
        "steer": "not_run",
        "cancel": "not_run",
    },
    "running": {
        "succeed": "succeeded",
        "fail": "failed",
        "lose": "outcome_unknown",
        "ask_question": "waiting_for_answer",
        "start_task": "polling",
        "cancel": "not_run",
        "stop": "not_run",
    },
    "polling": {
        "poll_again": "polling",
        "succeed": "succeeded",
        "fail": "failed",
        "lose": "outcome_unknown",
        "ask_question": "waiting_for_answer",
        "stop": "not_run",
    },
    "succeeded": {},
    "failed": {},
    "rejected": {},
    "not_run": {},
    "outcome_unknown": {
        "settle_succeeded": "succeeded",
        "settle_failed": "failed",
    },
}


def move_tool_call(call: AgentToolCall, move: ToolCallMove, **changes: Any) -> AgentToolCall:
    """Return the record after a move.

    Args:
        call: The record as committed.
        move: What happens to it.
        changes: Other fields as they become.

    Raises:
        RunnerContractError: The table has no such move from the call's status.
    """
    status = TOOL_CALL_MOVES[call.status].get(move)
    if status is None:
        raise RunnerContractError(f"tool call {call.tool_call_id!r}: no {move} from {call.status}")
    return msgspec.structs.replace(call, status=status, **changes)
