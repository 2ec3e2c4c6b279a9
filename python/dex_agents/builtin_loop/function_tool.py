"""Function tools: a Python function that a model may call, with its schema and its effect."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, cast, final, overload

from dex_agents import texts
from dex_agents.builtin_loop.function_signature import read_function_signature
from dex_agents.builtin_loop.json_schema import ArgumentSchema, SchemaProblemError
from dex_agents.builtin_loop.json_values import heal_json_value
from dex_agents.builtin_loop.tool_arguments import (
    ArgumentsProblemError,
    decode_tool_arguments,
)
from dex_agents.builtin_loop.tool_call_context import LoopBoundEventWriter, ToolCallContext
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import RunnerContractError, ToolDeclarationError
from dex_agents.runner.outcomes import ToolReconciliation
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["FunctionTool", "PrepareArguments", "ReconcileCall", "ToolFunction", "function_tool"]

ToolFunction = Callable[[dict[str, Any], ToolCallContext], Any]
"""`execute(arguments, context)`, async or sync; a sync one runs in a thread."""

PrepareArguments = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts decoded arguments before the check, such as a shape that an earlier version of the tool took."""

ReconcileCall = Callable[[dict[str, Any], ToolCallContext], Any]
"""`reconcile(arguments, context)`, async or sync, returns a `ToolReconciliation`."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_REASON_BYTES: Final = 300


@final
class FunctionTool:
    """A function that a model may call; made by `function_tool`.

    Attributes:
        name: What the model calls it.
        description: What the model reads about it.
        parameters: The JSON Schema of its arguments; not to be changed.
        effect: What running it twice would mean; `None` follows the session's default, `unclassified`.
        requires_approval: Whether a person is asked first; `None` follows the effect.
        ordered: Whether, as a write, it waits for the earlier ordered writes of its response.
    """

    __slots__ = (
        "_bind",
        "_decode",
        "_is_async",
        "_prepare",
        "_reconcile",
        "_schema",
        "description",
        "effect",
        "name",
        "ordered",
        "parameters",
        "requires_approval",
    )

    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        bind: Callable[[Any, ToolCallContext], Any],
        is_async: bool,
        decode: Callable[[dict[str, Any]], Any] | None,
        effect: ToolEffect | None,
        requires_approval: bool | None,
        prepare_arguments: PrepareArguments | None,
        ordered: bool,
        reconcile: ReconcileCall | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ToolDeclarationError(name, "the name must match ^[a-zA-Z0-9_-]{1,64}$")
        if prepare_arguments is not None and not callable(prepare_arguments):
            raise ToolDeclarationError(name, "prepare_arguments is not callable")
        if prepare_arguments is not None and inspect.iscoroutinefunction(prepare_arguments):
            raise ToolDeclarationError(name, "prepare_arguments must be a sync function")
        if reconcile is not None and not callable(reconcile):
            raise ToolDeclarationError(name, "reconcile is not callable")
        if not isinstance(cast("Any", parameters), Mapping):
            raise ToolDeclarationError(name, "parameters: must be a JSON Schema, as a mapping")
        try:
            self._schema = ArgumentSchema(parameters)
        except SchemaProblemError as error:
            raise ToolDeclarationError(name, f"parameters: {error}") from None
        if parameters.get("type") != "object":
            raise ToolDeclarationError(name, 'parameters: /type: must be "object"')
        self.name: Final = name
        self.description: Final = replace_lone_surrogates(description)
        self.parameters: Final[dict[str, Any]] = deepcopy(dict(parameters))
        self.effect: Final = None if effect is None else _effect_of(name, effect)
        self.requires_approval: Final = requires_approval
        self.ordered: Final = ordered
        self._bind = bind
        self._is_async = is_async
        self._decode = decode
        self._prepare = prepare_arguments
        self._reconcile = reconcile

    def __repr__(self) -> str:
        return f"FunctionTool(name={self.name!r}, effect={self.effect!r})"

    @property
    def is_reconcilable(self) -> bool:
        """Whether the tool can look up what became of a call."""
        return self._reconcile is not None

    def prepare_arguments(self, arguments: str) -> str:
        """Return the JSON text to run for what a model wrote: decoded, prepared and checked.

        Raises:
            ArgumentsProblemError: The arguments do not fit; the text is for the model.
        """
        decoded = decode_tool_arguments(arguments)
        before = encode_json_text(decoded.value)
        prepared = self._run_prepare(decoded.value)
        self._check(prepared, len(arguments))
        after = encode_json_text(prepared)
        return decoded.text if after == before else after

    def fit_arguments(self, arguments: str) -> str:
        """Return the JSON text to run for arguments that were prepared before, by this Worker or another.

        Arguments that fit run as they are: a person may have approved that very text. Only those that do not
        fit any more, since the tool has changed, are prepared again.

        Raises:
            ArgumentsProblemError: The arguments do not fit; the text is for the model.
        """
        decoded = decode_tool_arguments(arguments)
        try:
            self._check(decoded.value, len(arguments))
        except ArgumentsProblemError:
            if self._prepare is None:
                raise
            return self.prepare_arguments(arguments)
        return decoded.text

    async def execute(self, arguments: str, context: ToolCallContext) -> Any:
        """Run the function once and return what it returned.

        Args:
            arguments: From `prepare_arguments` or `fit_arguments`.
            context: For the function. A sync function runs in a thread, its events go through the loop.

        Raises:
            ArgumentsProblemError: The arguments do not fit.
            Exception: Whatever the function raises.

        Durability:
            Runs inside a tool Step, which decides about another attempt. Cancelling does not stop a thread.
        """
        value = self._decoded(decode_tool_arguments(arguments).value)
        return await _run(self._bind, value, context, is_async=self._is_async)

    async def reconcile(self, arguments: str, context: ToolCallContext) -> ToolReconciliation:
        """Find out what became of a call.

        Args:
            arguments: What the call was run with; not checked again, as the schema may have changed since.
            context: For the look-up, with the idempotency key of the call.

        Returns:
            What the look-up found; `still_unknown` when the tool has none, or the arguments cannot be read.

        Raises:
            RunnerContractError: The look-up returned something else.
            Exception: Whatever it raises.

        Durability:
            Runs inside `ReconcileToolCall`, which repeats it; it must change nothing.
        """
        if self._reconcile is None:
            return ToolReconciliation.still_unknown()
        try:
            value = decode_tool_arguments(arguments).value
        except ArgumentsProblemError:
            return ToolReconciliation.still_unknown()
        found = await _run(self._reconcile, value, context, is_async=_is_async_callable(self._reconcile))
        if not isinstance(found, ToolReconciliation):
            raise RunnerContractError(
                f"reconcile of tool {self.name!r} returned a {type(found).__name__}, not a ToolReconciliation"
            )
        return found

    def _check(self, value: dict[str, Any], text_length: int) -> None:
        problem = self._schema.find_problem(value, text_length=text_length)
        if problem is not None:
            raise ArgumentsProblemError(problem)
        self._decoded(value)

    def _decoded(self, value: dict[str, Any]) -> Any:
        if self._decode is None:
            return value
        try:
            return self._decode(value)
        except ArgumentsProblemError:
            raise
        except Exception as error:
            raise ArgumentsProblemError(_reason(error)) from error

    def _run_prepare(self, value: dict[str, Any]) -> dict[str, Any]:
        if self._prepare is None:
            return value
        try:
            prepared: Any = self._prepare(value)
        except Exception as error:
            raise ArgumentsProblemError(texts.arguments_not_prepared(_reason(error))) from error
        if inspect.isawaitable(prepared):
            if inspect.iscoroutine(prepared):
                prepared.close()
            raise ArgumentsProblemError(
                texts.arguments_not_prepared("prepare_arguments returned an awaitable")
            )
        try:
            return decode_tool_arguments(encode_json_text(heal_json_value(prepared))).value
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentsProblemError(texts.arguments_not_prepared(_reason(error))) from error


class _ToolRaisedStopIterationError(RuntimeError):
    """A `StopIteration` of a tool: a future cannot carry one, so awaiting its thread would never end."""


async def _run(
    function: Callable[[Any, ToolCallContext], Any], value: Any, context: ToolCallContext, *, is_async: bool
) -> Any:
    if is_async:
        result = function(value, context)
    else:
        events = LoopBoundEventWriter(context.events, asyncio.get_running_loop())
        result = await asyncio.to_thread(_call, function, value, replace(context, events=events))
    return await result if inspect.isawaitable(result) else result


def _call(bind: Callable[[Any, ToolCallContext], Any], value: Any, context: ToolCallContext) -> Any:
    try:
        return bind(value, context)
    except StopIteration as error:
        raise _ToolRaisedStopIterationError(f"StopIteration: {error}") from error


def _reason(error: Exception) -> str:
    text = replace_lone_surrogates(f"{type(error).__name__}: {error}")
    return cut_to_bytes(text, _MAX_REASON_BYTES)


def _effect_of(tool_name: str, effect: str) -> ToolEffect:
    with contextlib.suppress(ValueError):
        return ToolEffect(effect)
    raise ToolDeclarationError(
        tool_name, f"effect: {effect!r} is none of {', '.join(known.value for known in ToolEffect)}"
    )


def _is_async_callable(function: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return True
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _require_one_result(tool_name: str, function: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDeclarationError(tool_name, "a generator cannot be a tool: it must return one value")


@overload
def function_tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def function_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect | None = None,
    requires_approval: bool | None = None,
    prepare_arguments: PrepareArguments | None = None,
    ordered: bool = False,
    reconcile: ReconcileCall | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


@overload
def function_tool(
    *,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    execute: ToolFunction,
    effect: ToolEffect | None = None,
    requires_approval: bool | None = None,
    prepare_arguments: PrepareArguments | None = None,
    ordered: bool = False,
    reconcile: ReconcileCall | None = None,
) -> FunctionTool: ...


def function_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    execute: ToolFunction | None = None,
    effect: ToolEffect | None = None,
    requires_approval: bool | None = None,
    prepare_arguments: PrepareArguments | None = None,
    ordered: bool = False,
    reconcile: ReconcileCall | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function.

    As a decorator, `@function_tool(effect=ToolEffect.READ)`, the schema comes from the signature, the
    description from the docstring and the descriptions of the arguments from its `Args:` section. As a
    factory, `function_tool(name=..., description=..., parameters=..., execute=...)`, all is said outright.

    Args:
        function: The function, when the decorator is used without brackets.
        name: What the model calls it, `^[a-zA-Z0-9_-]{1,64}$`; the function's name by default.
        description: What the model reads; the docstring's text by default.
        parameters: The JSON Schema of the arguments, an object schema.
        execute: `execute(arguments, context)`, async or sync. A sync function runs in a thread.
        effect: What running it twice would mean. Left out, it follows the session's default: `unclassified`,
            one attempt and an approval.
        requires_approval: Whether a person is asked first; `None` follows the effect. A tool policy of the
            session wins over both.
        prepare_arguments: A sync, deterministic function from decoded arguments to those that are checked and
            run. An exception fails the call as arguments that do not fit would.
        ordered: Whether, as a write, it waits for the earlier ordered writes of its response, and is not run
            when one of them did not succeed.
        reconcile: `reconcile(arguments, context)`, async or sync: looks up, by `context.idempotency_key` say,
            whether a call took effect whose outcome is unknown, and returns a `ToolReconciliation`. It gets
            the arguments as they were run and must change nothing: it is repeated.

    Raises:
        ToolDeclarationError: The name, schema, signature or effect cannot be used; the text says where.

    Durability:
        The function runs in `CallTool` for `read` and `idempotent_write`: after a failed or lost attempt,
        again with the same idempotency key. Other effects run once, in `CallSingleAttemptTool`. Raise
        `ToolExecutionError` when the outcome is known and trying again cannot help.

        A function that has to ask a person returns `ToolInputRequested`, and nothing of it waits: when the
        answers are there it is entered again from its beginning, in a new run of its Step, with the same
        arguments and key, all answers so far in `context.answers`, and what it left for itself in
        `context.continuation`. It looks at those two first and asks only for what is missing; then no
        answered question is asked again. The order is: what the function does before it asks, the commit of
        the questions, the answers, the next run. The next run repeats a write from before a question unless
        `continuation` says that it is done. A repeated attempt of one run sees the continuation of the run
        before it, so each such write needs a key of its own, made from `context.idempotency_key`.
    """
    if parameters is not None or execute is not None:
        label = "" if name is None else name
        if (
            function is not None
            or name is None
            or description is None
            or parameters is None
            or execute is None
        ):
            raise ToolDeclarationError(label, "name, description, parameters and execute belong together")
        if not callable(execute):
            raise ToolDeclarationError(label, "execute is not callable")
        _require_one_result(name, execute)
        return FunctionTool(
            name=name,
            description=description,
            parameters=parameters,
            bind=execute,
            is_async=_is_async_callable(execute),
            decode=None,
            effect=effect,
            requires_approval=requires_approval,
            prepare_arguments=prepare_arguments,
            ordered=ordered,
            reconcile=reconcile,
        )

    def decorate(decorated: Callable[..., Any]) -> FunctionTool:
        tool_name = name if name is not None else cast("str", getattr(decorated, "__name__", ""))
        if not callable(decorated):
            raise ToolDeclarationError(tool_name, "it is not a function")
        _require_one_result(tool_name, decorated)
        signature = read_function_signature(tool_name, decorated)
        return FunctionTool(
            name=tool_name,
            description=signature.description if description is None else description,
            parameters=signature.parameters,
            bind=signature.bind,
            is_async=_is_async_callable(decorated),
            decode=signature.decode_arguments,
            effect=effect,
            requires_approval=requires_approval,
            prepare_arguments=prepare_arguments,
            ordered=ordered,
            reconcile=reconcile,
        )

    return decorate if function is None else decorate(function)
