"""The tools that the session itself runs: `ask_user`, `durable_wait` and `write_todos`.

A runner offers them to its model as they stand here and defers their calls like any other; the session takes
their arguments apart with the readers below and runs no tool Step for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast, get_args

import msgspec

from dex_agents import limits
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import DexAgentsError, InvalidInputError
from dex_agents.wire.interrupts import AgentQuestion, QuestionOption
from dex_agents.wire.plans import PlanTodo, TodoStatus

__all__ = [
    "ASK_USER",
    "BUILT_IN_TOOLS",
    "DURABLE_WAIT",
    "WRITE_TODOS",
    "BuiltInArgumentsError",
    "BuiltInTool",
    "RequestedWait",
    "read_questions",
    "read_todos",
    "read_wait",
    "require_built_in_tools",
    "require_questions",
]

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TODO_STATUSES: Final[tuple[TodoStatus, ...]] = get_args(TodoStatus)


class BuiltInArgumentsError(DexAgentsError, RuntimeError):
    """The arguments of a built-in tool do not fit; the text is for the model."""


@dataclass(frozen=True)
class BuiltInTool:
    """A built-in tool as a model is offered it.

    Attributes:
        name: Its name.
        description: What the model reads about it.
        parameters: The JSON Schema of its arguments; not to be changed.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class RequestedWait:
    """What `durable_wait` was asked for.

    Attributes:
        until: When the wait is over.
        reason: Why the model waits.
    """

    until: datetime
    reason: str


ASK_USER: Final = BuiltInTool(
    "ask_user",
    "Ask the user one or more questions and wait for the answers. Use it when you cannot go on without "
    "something that only the user knows or may decide.",
    {
        "type": "object",
        "properties": {
            "questions": {
                "type": "array",
                "minItems": 1,
                "maxItems": limits.MAX_QUESTIONS,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Names the question; the answer carries it."},
                        "question": {"type": "string"},
                        "options": {
                            "type": "array",
                            "maxItems": limits.MAX_QUESTION_OPTIONS,
                            "description": "Answers to choose from. The user may give another answer.",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "label": {"type": "string"},
                                    "description": {"type": "string"},
                                },
                                "required": ["label"],
                                "additionalProperties": False,
                            },
                        },
                        "multiple": {
                            "type": "boolean",
                            "description": "Whether several answers may be given.",
                        },
                    },
                    "required": ["id", "question"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["questions"],
        "additionalProperties": False,
    },
)

DURABLE_WAIT: Final = BuiltInTool(
    "durable_wait",
    "Wait for a while, or until a point in time, before you go on. The wait survives restarts and may last "
    "up to 366 days. Give either seconds or until.",
    {
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.MAX_WAIT_SECONDS},
            "until": {
                "type": "string",
                "description": "A date and time with its zone as in RFC 3339, such as 2027-03-01T09:00:00Z.",
            },
            "reason": {"type": "string", "description": "What you wait for; the user sees it."},
        },
        "required": ["reason"],
        "additionalProperties": False,
    },
)

WRITE_TODOS: Final = BuiltInTool(
    "write_todos",
    "Write your plan as a list of tasks, or update it. The list replaces the one before it, so always give "
    "all tasks. At most one task may be in_progress.",
    {
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "minItems": 1,
                "maxItems": limits.MAX_PLAN_TODOS,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "task": {"type": "string"},
                        "status": {"type": "string", "enum": list(_TODO_STATUSES)},
                    },
                    "required": ["task", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    },
)

BUILT_IN_TOOLS: Final[Mapping[str, BuiltInTool]] = {
    tool.name: tool for tool in (ASK_USER, DURABLE_WAIT, WRITE_TODOS)
}
"""By name."""


def require_built_in_tools(field: str, names: Collection[str]) -> tuple[BuiltInTool, ...]:
    """Return built-in tools in a fixed order.

    Raises:
        InvalidInputError: A name is none of theirs.
    """
    for name in names:
        if name not in BUILT_IN_TOOLS:
            raise InvalidInputError(field, f"{name!r} is none of {', '.join(BUILT_IN_TOOLS)}")
    return tuple(tool for name, tool in BUILT_IN_TOOLS.items() if name in names)


def read_questions(arguments: str) -> tuple[AgentQuestion, ...]:
    """Return what `ask_user` was asked to ask.

    Raises:
        BuiltInArgumentsError: The arguments do not fit.
    """
    fields = _read_object(arguments, "", ("questions",))
    return _questions(_items(fields, "questions", limits.MAX_QUESTIONS))


def require_questions(questions: Sequence[AgentQuestion]) -> tuple[AgentQuestion, ...]:
    """Return the questions of a tool, checked by the same rules as those of `ask_user`.

    Raises:
        BuiltInArgumentsError: They do not fit.
    """
    raw: Any = msgspec.to_builtins(tuple(questions))
    return _questions(_items({"questions": raw}, "questions", limits.MAX_QUESTIONS))


def read_wait(arguments: str, now: datetime) -> RequestedWait:
    """Return what `durable_wait` was asked for; a time that has passed is over at once.

    Raises:
        BuiltInArgumentsError: The arguments do not fit.
    """
    fields = _read_object(arguments, "", ("seconds", "until", "reason"))
    reason = _text(fields, "reason", "reason", limits.MAX_QUESTION_BYTES)
    seconds, until = fields.get("seconds"), fields.get("until")
    if (seconds is None) == (until is None):
        raise BuiltInArgumentsError("give either seconds or until")
    if until is None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise BuiltInArgumentsError("seconds must be a number above 0")
        if not math.isfinite(seconds) or seconds > limits.MAX_WAIT_SECONDS:
            raise BuiltInArgumentsError(f"seconds must be at most {limits.MAX_WAIT_SECONDS}")
        return RequestedWait(now + timedelta(seconds=seconds), reason)
    if not isinstance(until, str) or _TIME.fullmatch(until) is None:
        raise BuiltInArgumentsError("until must be a date and time with its zone, as in RFC 3339")
    try:
        end = datetime.fromisoformat(until.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BuiltInArgumentsError("until is no date and time that exists") from None
    if end > now + timedelta(seconds=limits.MAX_WAIT_SECONDS):
        raise BuiltInArgumentsError("until must be at most 366 days away")
    return RequestedWait(end, reason)


def read_todos(arguments: str) -> tuple[PlanTodo, ...]:
    """Return what `write_todos` was asked to write.

    Raises:
        BuiltInArgumentsError: The arguments do not fit.
    """
    items = _items(_read_object(arguments, "", ("todos",)), "todos", limits.MAX_PLAN_TODOS)
    todos: list[PlanTodo] = []
    for index, item in enumerate(items):
        where = f"todos[{index}]"
        fields = _object(item, where, ("id", "task", "status"))
        status = fields.get("status")
        if status not in _TODO_STATUSES:
            raise BuiltInArgumentsError(f"{where}.status must be one of {', '.join(_TODO_STATUSES)}")
        identifier = fields.get("id")
        named = str(index + 1) if identifier is None else _identifier(fields, where)
        task = _text(fields, "task", f"{where}.task", limits.MAX_TODO_BYTES)
        todos.append(PlanTodo(named, task, status))
    _require_different("todos", [todo.id for todo in todos])
    if sum(todo.status == "in_progress" for todo in todos) > 1:
        raise BuiltInArgumentsError("at most one task may be in_progress")
    return tuple(todos)


def _questions(items: Sequence[Any]) -> tuple[AgentQuestion, ...]:
    questions: list[AgentQuestion] = []
    for index, item in enumerate(items):
        where = f"questions[{index}]"
        fields = _object(item, where, ("id", "question", "options", "multiple"))
        multiple = fields.get("multiple", False)
        if not isinstance(multiple, bool):
            raise BuiltInArgumentsError(f"{where}.multiple must be true or false")
        questions.append(
            AgentQuestion(
                id=_identifier(fields, where),
                question=_text(fields, "question", f"{where}.question", limits.MAX_QUESTION_BYTES),
                options=_options(fields, where),
                multiple=multiple,
            )
        )
    _require_different("questions", [question.id for question in questions])
    return tuple(questions)


def _options(fields: Mapping[str, Any], where: str) -> tuple[QuestionOption, ...]:
    if not fields.get("options"):
        return ()
    options: list[QuestionOption] = []
    for index, item in enumerate(_items(fields, "options", limits.MAX_QUESTION_OPTIONS, where)):
        place = f"{where}.options[{index}]"
        option = _object(item, place, ("label", "description"))
        description = option.get("description")
        if description is not None:
            description = _text(option, "description", f"{place}.description", limits.MAX_QUESTION_BYTES)
        label = _text(option, "label", f"{place}.label", limits.MAX_QUESTION_BYTES)
        options.append(QuestionOption(label, description))
    _require_different(f"{where}.options", [option.label for option in options])
    return tuple(options)


def _read_object(arguments: str, where: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    try:
        value: Any = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise BuiltInArgumentsError("the arguments are not valid JSON") from None
    return _object(value, where, allowed)


def _object(value: Any, where: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BuiltInArgumentsError(f"{where or 'the arguments'} must be an object")
    fields = cast("dict[str, Any]", value)
    for name in fields:
        if name not in allowed:
            place = f"{where} has" if where else "there is"
            raise BuiltInArgumentsError(f"{place} no field {name!r}; allowed: {', '.join(allowed)}")
    return fields


def _items(fields: Mapping[str, Any], name: str, most: int, where: str = "") -> list[Any]:
    value = fields.get(name)
    place = f"{where}.{name}" if where else name
    if not isinstance(value, list | tuple) or not value:
        raise BuiltInArgumentsError(f"{place} must be an array with at least one item")
    items: list[Any] = list(cast("Any", value))
    if len(items) > most:
        raise BuiltInArgumentsError(f"{place} has {len(items)} items, the limit is {most}")
    return items


def _text(fields: Mapping[str, Any], name: str, place: str, most: int) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BuiltInArgumentsError(f"{place} must be text that is not blank")
    healed = replace_lone_surrogates(value)
    size = len(healed.encode())
    if size > most:
        raise BuiltInArgumentsError(f"{place} has {size} bytes, the limit is {most}")
    return healed


def _identifier(fields: Mapping[str, Any], where: str) -> str:
    identifier = _text(fields, "id", f"{where}.id", limits.MAX_QUESTION_BYTES)
    if len(identifier) > limits.MAX_IDENTIFIER_CHARACTERS:
        raise BuiltInArgumentsError(
            f"{where}.id has {len(identifier)} characters, the limit is {limits.MAX_IDENTIFIER_CHARACTERS}"
        )
    return identifier


def _require_different(place: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BuiltInArgumentsError(f"{place}: {name!r} appears twice")
