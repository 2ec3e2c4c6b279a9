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
    "ApplyRetention",
]

_MAY_RUN_AGAIN: Final = "read or idempotent write"
_MUST_NOT: Final = "any other effect"
_FAILED: Final = "failed for good"
_ALONE: Final = "over, the only call"
_DUE: Final = "over, with much to delete"

STEP_ROUTES: Final[Mapping[StepName, Mapping[StepName, str]]] = {
    "StartSession": {
        "AwaitUserMessage": "always",
        "RunModel": "with a first message",
    },
    "AwaitUserMessage": {
        "RunModel": "a message",
        "CloseSession": "closing",
        "AwaitUserMessage": "unless closing",
    },
    "RunModel": {
        "ApplyRetention": _DUE,
        "RunModel": "continued, compacted, or no call can run",
        "CallTool": _MAY_RUN_AGAIN,
        "CallSingleAttemptTool": _MUST_NOT,
        "AwaitToolApproval": "needs approval",
        "AwaitQuestionAnswer": "ask_user",
        "AwaitWaitEnd": "durable_wait",
        "AwaitEarlierWrite": "a later ordered write",
        "ResumeTurn": "beside several calls",
        "FailTurn": _FAILED,
    },
    "FailTurn": {
        "ApplyRetention": _DUE,
    },
    "ResumeTurn": {
        "RunModel": "every call is final",
    },
    "CancelTurn": {
        "CancelTurn": "a call still runs",
        "ApplyRetention": _DUE,
    },
    "CloseSession": {
        "CloseSession": "a message came meanwhile",
    },
    "CallTool": {
        "AwaitQuestionAnswer": "asks",
        "PollToolTask": "started a task",
        "ReconcileToolCall": "outcome unknown",
        "RecordToolFailure": _FAILED,
        "RunModel": _ALONE,
    },
    "CallSingleAttemptTool": {
        "AwaitQuestionAnswer": "asks",
        "PollToolTask": "started a task",
        "ReconcileToolCall": "outcome unknown",
        "RecordToolFailure": _FAILED,
        "RunModel": _ALONE,
    },
    "RecordToolFailure": {
        "ReconcileToolCall": "outcome unknown",
        "RunModel": _ALONE,
    },
    "ReconcileToolCall": {
        "RecordToolFailure": _FAILED,
        "RunModel": _ALONE,
    },
    "PollToolTask": {
        "RunModel": _ALONE,
        "PollToolTask": "goes on, or was not reached",
        "AwaitQuestionAnswer": "asks",
    },
    "AwaitToolApproval": {
        "CallTool": f"approved, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"approved, {_MUST_NOT}",
        "AwaitEarlierWrite": "approved, a later ordered write",
        "RunModel": _ALONE,
    },
    "AwaitQuestionAnswer": {
        "CallTool": f"answered, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"answered, {_MUST_NOT}",
        "PollToolTask": "a task goes on",
        "RunModel": _ALONE,
    },
    "AwaitWaitEnd": {
        "RunModel": _ALONE,
    },
    "AwaitEarlierWrite": {
        "CallTool": f"succeeded, {_MAY_RUN_AGAIN}",
        "CallSingleAttemptTool": f"succeeded, {_MUST_NOT}",
    },
    "ApplyRetention": {},
}
"""From each Step to those that it schedules. A Step whose call has its final record leads nowhere when the
response asked for more calls than this one: `ResumeTurn` waits for all of them. The end of a turn leads
nowhere too: one `AwaitUserMessage` waits beside every turn."""

COMMAND_ROUTES: Final[Mapping[str, StepName]] = {
    "begin_turn": "RunModel",
    "steer_user_message": "RunModel",
    "approve_plan": "RunModel",
    "cancel_turn": "CancelTurn",
    "close_session": "CancelTurn",
}
"""From the commands that schedule a Step themselves: the first three in an idle session only, the others
while a turn runs."""

LAST_STEP: Final[StepName] = "CloseSession"
"""Ends the Flow."""
