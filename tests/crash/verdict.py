"""What must hold after any crash, checked against the outside world, without the session's own decisions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dex_agents import AgentSnapshot, AgentToolCall, ToolEffect
from dex_agents.builtin_loop import ModelOutputItem, ModelRequest, ModelToolResultItem, ModelUserTextItem
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.testing import Invocation
from tests.crash.agent import BUILT_IN_TOOLS

__all__ = [
    "find_invalid_requests",
    "find_lost_messages",
    "find_repeated_writes",
    "find_unpaired_calls",
    "find_untrue_records",
]

_RUNS_OF_A_WRITE = {
    "succeeded": (1, 1),
    "outcome_unknown": (0, 1),
    "not_run": (0, 0),
    "rejected": (0, 0),
    # The crash agent's tools never raise what is known to be final.
    "failed": (0, 0),
}
"""By final status: the fewest and the most runs that the outside world may have seen."""

_RUNS_OF_AN_IDEMPOTENT_WRITE = {
    "succeeded": (1, MAX_TOOL_CALL_ATTEMPTS),
    "failed": (0, MAX_TOOL_CALL_ATTEMPTS),
    "outcome_unknown": (0, MAX_TOOL_CALL_ATTEMPTS),
    "not_run": (0, 0),
    "rejected": (0, 0),
}

_RUNS_OF_A_READ = {
    "succeeded": (1, MAX_TOOL_CALL_ATTEMPTS),
    "failed": (0, MAX_TOOL_CALL_ATTEMPTS),
    # A cancelled turn leaves a read that was running as one that did not run: nothing was changed.
    "not_run": (0, MAX_TOOL_CALL_ATTEMPTS),
    "rejected": (0, 0),
}


def find_repeated_writes(invocations: Iterable[Invocation], once_only: Iterable[str]) -> list[str]:
    """Return what happened more than once outside, by tools whose effect must not be repeated.

    Counted by what is done (`reference`), not by key: a repeat under a new key is a repeat.
    """
    names = frozenset(once_only)
    done = Counter(
        (one.tool_name, str(one.arguments["reference"])) for one in invocations if one.tool_name in names
    )
    return [f"{name} {reference} ran {count} times" for (name, reference), count in done.items() if count > 1]


def find_lost_messages(snapshot: AgentSnapshot, acknowledged: Iterable[str]) -> list[str]:
    """Return the IDs of acknowledged messages that are not in the transcript exactly once."""
    stored = Counter(message.message_id for message in snapshot.messages if message.role == "user")
    return [
        f"{snapshot.session_id}: message {one} is there {stored[one]} times"
        for one in acknowledged
        if stored[one] != 1
    ]


def find_untrue_records(snapshot: AgentSnapshot, invocations: Sequence[Invocation]) -> list[str]:
    """Return the records of a settled session that say something else than the outside world."""
    by_key: dict[str, list[Invocation]] = {}
    for one in invocations:
        by_key.setdefault(one.idempotency_key, []).append(one)
    problems: list[str] = []
    known: set[str] = set()
    for call in snapshot.tool_calls:
        key = f"{snapshot.session_id}/{call.turn_id}/{call.tool_call_id}"
        known.add(key)
        runs = by_key.get(key, [])
        problems += (f"{key}: {problem}" for problem in _problems_of_a_record(call, runs))
    strangers = (key for key in by_key if key.startswith(f"{snapshot.session_id}/") and key not in known)
    return problems + [f"{key}: ran, and has no record" for key in strangers]


def _problems_of_a_record(call: AgentToolCall, runs: Sequence[Invocation]) -> list[str]:
    if call.status not in _RUNS_OF_A_WRITE or (
        call.effect is ToolEffect.READ and call.status not in _RUNS_OF_A_READ
    ):
        return [f"is {call.status} although its turn is over"]
    if call.tool_name in BUILT_IN_TOOLS:
        return [f"ran {len(runs)} times although the session runs it"] if runs else []
    arguments = json.loads(call.arguments_to_run)
    problems = [f"ran with {one.arguments}" for one in runs if one.arguments != arguments]
    problems += [f"ran as {one.tool_name}" for one in runs if one.tool_name != call.tool_name]
    match call.effect:
        case ToolEffect.READ:
            fewest, most = _RUNS_OF_A_READ[call.status]
        case ToolEffect.IDEMPOTENT_WRITE:
            fewest, most = _RUNS_OF_AN_IDEMPOTENT_WRITE[call.status]
        case _:
            fewest, most = _RUNS_OF_A_WRITE[call.status]
    if not fewest <= len(runs) <= most:
        problems.append(f"is {call.status} and ran {len(runs)} times")
    if (
        call.status == "succeeded"
        and json.loads(call.output or "{}").get("reference") != arguments["reference"]
    ):
        problems.append(f"succeeded with {call.output!r}")
    if (call.output is None) == (call.error is None):
        problems.append("has both or neither of an output and an error")
    return problems


def find_unpaired_calls(snapshot: AgentSnapshot) -> list[str]:
    """Return the stored calls of a settled session that do not have exactly one stored result."""
    results = Counter(message.tool_call_id for message in snapshot.messages if message.role == "tool")
    return [
        f"{snapshot.session_id}: {call.tool_call_id} has {results[call.tool_call_id]} results"
        for call in snapshot.tool_calls
        if results[call.tool_call_id] != 1
    ]


def find_invalid_requests(requests: Iterable[ModelRequest]) -> list[str]:
    """Return what a provider would refuse."""
    problems: list[str] = []
    for number, request in enumerate(requests, 1):
        problems += (f"request {number}: {problem}" for problem in _problems_of_a_request(request))
    return problems


def _problems_of_a_request(request: ModelRequest) -> list[str]:
    if not request.items or not isinstance(request.items[0], ModelUserTextItem):
        return ["does not begin with user text"]
    problems: list[str] = []
    expected: list[str] = []
    for item in request.items:
        match item:
            case ModelToolResultItem(model_call_id=call_id, output=output):
                if not expected or expected.pop(0) != call_id:
                    problems.append(f"the result of {call_id} is out of place")
                if not output.strip():
                    problems.append(f"the result of {call_id} is blank")
            case ModelOutputItem(text=text, tool_calls=calls):
                problems += _missing(expected)
                expected = [call.model_call_id for call in calls]
                if not text.strip() and not calls:
                    problems.append("an answer is blank")
                problems += (
                    f"the arguments of {call.model_call_id} are no JSON object"
                    for call in calls
                    if not isinstance(json.loads(call.arguments), Mapping)
                )
            case ModelUserTextItem(text=text):
                problems += _missing(expected)
                expected = []
                if not text.strip():
                    problems.append("a user text is blank")
    return problems + _missing(expected)


def _missing(expected: Sequence[str]) -> list[str]:
    return [f"the result of {call_id} is missing" for call_id in expected]
