"""Every shared number, in one place: each is checked where the value enters and named in the error."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ESTIMATED_IMAGE_INPUT_TOKENS",
    "MAX_ANSWER_BYTES",
    "MAX_CONTEXT_SUMMARY_BYTES",
    "MAX_EVENT_TEXT_BYTES",
    "MAX_IDENTIFIER_CHARACTERS",
    "MAX_IMAGES_PER_MESSAGE",
    "MAX_IMAGE_BYTES",
    "MAX_IMAGE_URI_LENGTH",
    "MAX_JOINED_DELTA_BYTES",
    "MAX_JSON_DEPTH",
    "MAX_MODEL_CALL_ATTEMPTS",
    "MAX_MODEL_RETRY_AFTER_SECONDS",
    "MAX_PLAN_TODOS",
    "MAX_QUESTIONS",
    "MAX_QUESTION_BYTES",
    "MAX_QUESTION_OPTIONS",
    "MAX_REQUEST_IMAGE_BYTES",
    "MAX_SESSION_SETTINGS_BYTES",
    "MAX_TASK_POLL_FAILURES",
    "MAX_TASK_REFERENCE_BYTES",
    "MAX_TODO_BYTES",
    "MAX_TOOL_ARGUMENTS_BYTES",
    "MAX_TOOL_CALLS_PER_RESPONSE",
    "MAX_TOOL_CALL_ATTEMPTS",
    "MAX_TOOL_CONTINUATION_BYTES",
    "MAX_TOOL_OUTPUT_BYTES",
    "MAX_TOOL_SCHEMA_BYTES",
    "MAX_UNREPORTED_SPEND",
    "MAX_USER_TEXT_BYTES",
    "MAX_WAIT_SECONDS",
    "STEP_HEARTBEAT_SECONDS",
    "TOOL_LISTING_SECONDS",
]

MAX_USER_TEXT_BYTES: Final = 1024 * 1024
"""One user message, as UTF-8."""

MAX_TOOL_ARGUMENTS_BYTES: Final = 1024 * 1024
"""The arguments of one tool call, as UTF-8; longer ones are answered to the model as a failure."""

MAX_CONTEXT_SUMMARY_BYTES: Final = 64 * 1024
"""The summary of an earlier conversation, as UTF-8; the rest is cut."""

MAX_UNREPORTED_SPEND: Final = 32
"""Model calls of a session that a spend limiter could not be told of, and will be told of later."""

MAX_TOOL_OUTPUT_BYTES: Final = 1024 * 1024
"""The stored output of one tool call, as UTF-8; the rest is cut and a note says how much."""

MAX_TOOL_CALLS_PER_RESPONSE: Final = 128
"""Calls in one model response; the ones after it are answered as not run."""

MAX_EVENT_TEXT_BYTES: Final = 64 * 1024
"""One text inside a live event; the rest is cut there, and stands whole in the snapshot."""

MAX_IDENTIFIER_CHARACTERS: Final = 256
"""Session IDs, message IDs and interrupt IDs."""

MAX_IMAGE_BYTES: Final = 3_750_000
"""One image; its base64 text then has 5,000,000 bytes, which is what providers take."""

MAX_IMAGES_PER_MESSAGE: Final = 20
"""The images of one user message, and of one tool result."""

MAX_REQUEST_IMAGE_BYTES: Final = 40_000_000
"""The images of one model request together; of more, the oldest are named and not sent."""

MAX_IMAGE_URI_LENGTH: Final = 1024
"""The `uri` of an image reference, in bytes as UTF-8."""

MAX_QUESTIONS: Final = 4
"""Questions that are asked together."""

MAX_QUESTION_OPTIONS: Final = 20
"""Answers to choose from, of one question."""

MAX_QUESTION_BYTES: Final = 8 * 1024
"""A question, an option and its description, each as UTF-8."""

MAX_ANSWER_BYTES: Final = 64 * 1024
"""All answers to the questions that were asked together, as UTF-8."""

MAX_TOOL_CONTINUATION_BYTES: Final = 64 * 1024
"""What a tool leaves for itself when it asks a person, as UTF-8."""

MAX_TASK_REFERENCE_BYTES: Final = 8 * 1024
"""What names a remote task, as UTF-8."""

MAX_TASK_POLL_FAILURES: Final = 3
"""Polls in a row that did not reach the server of a task before the task is given up."""

MAX_WAIT_SECONDS: Final = 366 * 24 * 3600
"""How far ahead a `durable_wait` may end."""

MAX_PLAN_TODOS: Final = 100
"""Tasks of one plan."""

MAX_TODO_BYTES: Final = 4 * 1024
"""One task of a plan, as UTF-8."""

MAX_SESSION_SETTINGS_BYTES: Final = 64 * 1024
"""The settings of a session, as JSON text."""

MAX_MODEL_CALL_ATTEMPTS: Final = 3
"""Attempts of one `RunModel` Step before the turn fails."""

MAX_MODEL_RETRY_AFTER_SECONDS: Final = 15 * 60
"""A provider that asks to be left alone for longer ends the turn: a person decides what to do meanwhile."""

MAX_TOOL_CALL_ATTEMPTS: Final = 3
"""Attempts of one `CallTool` Step; a `CallSingleAttemptTool` Step has one."""

MAX_JOINED_DELTA_BYTES: Final = 32 * 1024
"""The text of adjacent deltas that share one frame of a UI stream, as it is spelled there."""

MAX_JSON_DEPTH: Final = 128
"""Levels of objects and arrays in the arguments of a tool call, and in a tool's schema."""

MAX_TOOL_SCHEMA_BYTES: Final = 256 * 1024
"""The JSON Schema of one tool, as JSON text."""

STEP_HEARTBEAT_SECONDS: Final = 60
"""Without a sign of life for this long an attempt is given up; a living one sends four in that time."""

ESTIMATED_IMAGE_INPUT_TOKENS: Final = 1600
"""What one image counts for when the input of a model call is estimated, whatever its size."""

TOOL_LISTING_SECONDS: Final = 10
"""How long a model call waits for the listing of a tool source, unless its agent says otherwise."""
