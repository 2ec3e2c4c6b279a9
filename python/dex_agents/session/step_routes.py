"""Which Step of a session Flow leads to which, and when: the table that `make graph` draws.

Steps are named as they are in history and search. A test takes the routes on an engine and finds none that is
not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

__all__ = ["COMMAND_ROUTES", "LAST_STEP", "STEP_ROUTES", "StepName"]

StepName = Literal[
    "StartSession",
    "AwaitUserMessage",
    "RunModel",
    "FailTurn",
    "ResumeTurn",
    "CancelTurn",
    "CloseSession",
    "CallTool",
    "CallSingleAttemptTool",
    "RecordToolFailure",
    "ReconcileToolCall",
    "PollToolTask",
    "AwaitToolApproval",
    "AwaitQuestionAnswer",
    "AwaitWaitEnd",
    "AwaitEarlierWrite",
]

_MAY_RUN_AGAIN: Final = "read or idempotent write"
_MUST_NOT: Final = "any other effect"
_FAILED: Final = "failed for good"

STEP_ROUTES: Final[Mapping[StepName, Mapping[StepName, str]]] = {
    "StartSession": {
        "RunModel": "with a first message",
        "AwaitUserMessage": "without one",
    },
    "AwaitUserMessage": {
        "RunModel": "a message",
        "CloseSession": "closing",
        "AwaitUserMessage": "nothing to do",
    },
    "RunModel": {
        "AwaitUserMessage": "the turn is over",
        "RunModel": "continued, compacted, or no call can run",
        "CallTool": _MAY_RUN_AGAIN,
        "CallSingleAttemptTool": _MUST_NOT,
        "AwaitToolApproval": "needs approval",
        "AwaitQuestionAnswer": "ask_user",
        "AwaitWaitEnd": "durable_wait",
        "AwaitEarlierWrite": "a later ordered write",
        "ResumeTurn": "beside the calls",
        "FailTurn": _FAILED,
    },
    "FailTurn": {
        "AwaitUserMessage": "the turn is over",
    },
    "ResumeTurn": {
        "RunModel": "every call is final",
    },
    "CancelTurn": {
        "CancelTurn": "a call still runs",
        "AwaitUserMessage": "the turn is over",
    },
    "CloseSession": {
        "CloseSession": "a message came meanwhile",
    },
    "CallTool": {
        "AwaitQuestionAnswer": "asks",
        "PollToolTask": "started a task",
        "ReconcileToolCall": "outcome unknown",
        "RecordToolFailure": _FAILED,
    },
    "CallSingleAttemptTool": {
        "AwaitQuestionAnswer": "asks",
        "PollToolTask": "started a task",
        "ReconcileToolCall": "outcome unknown",
        "RecordToolFailure": _FAILED,
    },
    "RecordToolFailure": {
        "ReconcileToolCall": "outcome unknown",
    },
    "ReconcileToolCall": {
        "RecordToolFailure": _FAILED,
    },
    "PollToolTask": {
        "PollToolTask": "goes on, or was not reached",
        "AwaitQuestionAnswer": "asks",
    },
    "AwaitToolApproval": {
        "CallTool": f"approved, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"approved, {_MUST_NOT}",
        "AwaitEarlierWrite": "approved, a later ordered write",
    },
    "AwaitQuestionAnswer": {
        "CallTool": f"answered, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"answered, {_MUST_NOT}",
        "PollToolTask": "a task goes on",
    },
    "AwaitWaitEnd": {},
    "AwaitEarlierWrite": {
        "CallTool": f"succeeded, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"succeeded, {_MUST_NOT}",
    },
}
"""From each Step to those that it schedules; a Step also ends where its call has its final record."""

COMMAND_ROUTES: Final[Mapping[str, StepName]] = {"cancel_turn": "CancelTurn", "close_session": "CancelTurn"}
"""From the commands that schedule a Step themselves; both do while a turn runs only."""

LAST_STEP: Final[StepName] = "CloseSession"
"""Ends the Flow."""
