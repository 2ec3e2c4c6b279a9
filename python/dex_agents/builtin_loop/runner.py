"""The built-in agent loop as a runner: one model call or one tool call at a time, from committed state."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from dex_agents import limits, texts
from dex_agents.builtin_loop.context_compaction import (
    build_summary_request,
    choose_cut,
    estimate_request,
    measure_request,
)
from dex_agents.builtin_loop.continuation import (
    MAX_CONSECUTIVE_TURN_CONTINUATIONS,
    ContinueTurn,
    TurnContinuation,
    ask_continuation_hook,
    describe_answer,
    describe_tool_iteration,
)
from dex_agents.builtin_loop.contract import (
    ModelClient,
    ModelRequest,
    ModelResponse,
)
from dex_agents.builtin_loop.definition import (
    AgentDefinition,
)
from dex_agents.builtin_loop.function_tool_result import FunctionToolResult
from dex_agents.builtin_loop.input_items import (
    build_input_items,
    build_model_output_message,
    build_tool_result_message,
    build_user_text_message,
    find_open_calls,
)
from dex_agents.builtin_loop.model_calls import (
    SILENT_EVENTS,
    build_instructions,
    describe_model_call,
    generate_response,
    generate_with_images,
    resolve_model,
)
from dex_agents.builtin_loop.offered_tools import NO_TOOLS, AgentTools, OfferedTools
from dex_agents.builtin_loop.request_images import limit_images, load_request_images
from dex_agents.builtin_loop.run_state import RunState, decode_run_state, encode_run_state
from dex_agents.builtin_loop.stored_calls import build_stored_calls
from dex_agents.builtin_loop.stored_items import StoredModelOutput, StoredToolCall, build_native_item
from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError
from dex_agents.builtin_loop.tool_call_context import ToolCallContext
from dex_agents.builtin_loop.tool_output import encode_tool_output
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import (
    AttemptFailedError,
    InvalidInputError,
    ModelCallRefusedError,
    ToolExecutionError,
    ToolOutcomeUnknownError,
)
from dex_agents.media.references import validate_image_references
from dex_agents.runner.contract import ContextSummaryRequest
from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    SummarizedContext,
    ToolCallsRequested,
    ToolExecutionResult,
    ToolInputRequested,
    ToolOutcome,
    ToolReconciliation,
    ToolTaskStarted,
    TurnCompleted,
    TurnContinued,
)
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.tool_sources.router import build_missing_tool_error
from dex_agents.tools.plan_note import build_plan_note
from dex_agents.tools.results import describe_tool_result
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.tool_calls import AgentToolCall
from dex_agents.wire.usage import AgentUsage, empty_agent_usage

__all__ = ["BuiltinLoopAgentRunner"]

_NOT_FOR_THE_SDK: Final = (TypeError, ValueError, SystemExit)


class EmptyModelAnswerError(RuntimeError):
    """The model returned neither text nor a tool call; the attempt failed."""


class BuiltinLoopAgentRunner:
    """Runs an `AgentDefinition` under a session.

    Each model call is built from committed state alone, and each answer is stored with the Step that got it:
    the turn's transcript grows as the turn goes, and `framework_run_state` is a count.
    """

    def __init__(self, definition: AgentDefinition) -> None:
        self._definition = definition
        self._tools: Final = AgentTools(definition)

    @property
    def supports_plan_mode(self) -> bool:
        """See `SupportsPlanMode`."""
        return True

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Make one model call and say what follows; see `AgentFrameworkRunner.run_model_step`.

        Args:
            turn: The turn as committed.

        Durability:
            Runs inside `RunModel`. A crash or an exception repeats the model call from the same committed
            state. An answer with neither text nor calls fails the attempt; the last one fails the turn. A
            call that the provider refuses for good fails the turn at once.
        """
        state = decode_run_state(turn.framework_run_state)
        results = self._build_result_messages(turn)
        taken = self._tools.find_taken_name(turn)
        if taken is not None:
            return TurnCompleted(
                new_messages=results,
                usage=empty_agent_usage(),
                turn_error=texts.built_in_tool_name_taken(taken),
            )
        with _application_errors():
            decision = await self._decide_after_tools(turn, results)
            if decision == "end":
                return TurnCompleted(new_messages=results, usage=empty_agent_usage())
            if isinstance(decision, ContinueTurn):
                results = (*results, build_user_text_message(decision.message))
            model = resolve_model(self._definition, turn.session_settings)
            offered = await self._offer_tools(turn, state)
            request = await load_request_images(
                self._build_request(turn, model, results, offered),
                self._definition.media_store,
                is_last_attempt=turn.attempt >= limits.MAX_MODEL_CALL_ATTEMPTS,
            )
            try:
                request, response = await generate_with_images(model, request, turn.events)
            except ModelCallRefusedError as refusal:
                return TurnCompleted(
                    new_messages=results,
                    usage=empty_agent_usage(),
                    turn_error=texts.model_call_refused(replace_lone_surrogates(str(refusal))),
                )
        outcome = await self._follow_response(
            turn, state, results, offered=offered, model=model, response=response
        )
        anchor = None
        if turn.context_window_tokens is not None:
            anchor = measure_request(request, model, response.usage)
        return msgspec.structs.replace(
            outcome, input_token_anchor=anchor, model_call_metadata=describe_model_call(model, response)
        )

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        """Run one tool call; see `AgentFrameworkRunner.execute_deferred_tool_call`.

        A call of a tool source goes to its source. A function tool is looked up and its arguments are checked
        again: another version of the application may have asked.

        Args:
            call: The call as committed.

        Raises:
            ToolExecutionError: The tool is gone, the arguments do not fit, the tool said so, its result
                cannot be written as JSON, or it has images and the agent no media store. Recorded `failed`,
                not retried.
            ToolOutcomeUnknownError: The tool said so, or is gone although it may have changed something.

        Durability:
            Runs inside `CallTool` or `CallSingleAttemptTool`. Any other exception is a failed attempt.
        """
        if call.tool_source_reference is not None:
            with _application_errors():
                return await self._tools.router.execute_deferred_tool_call(call)
        tool = self._tools.find_function(call.tool_name)
        if tool is None:
            raise build_missing_tool_error(call)
        try:
            with _application_errors():
                arguments = tool.fit_arguments(call.arguments)
                value = await tool.execute(arguments, _build_context(call))
        except ArgumentsProblemError as problem:
            raise ToolExecutionError(texts.invalid_arguments(str(problem))) from None
        if isinstance(value, ToolInputRequested):
            return value
        if isinstance(value, ToolTaskStarted):
            raise ToolOutcomeUnknownError(texts.TASK_OF_FUNCTION_TOOL)
        result = value if isinstance(value, FunctionToolResult) else FunctionToolResult(value)
        if result.images and self._definition.media_store is None:
            raise ToolExecutionError(texts.TOOL_IMAGES_WITHOUT_STORE)
        validate_image_references(result.images)
        output = encode_tool_output(result.output, ensure_ascii=self._definition.tool_output_ascii)
        return ToolExecutionResult(output, result.images)

    async def poll_tool_task(self, call: DeferredToolExecution) -> ToolOutcome:
        """Poll a task at the source that started it; see `PollsToolTasks.poll_tool_task`.

        Durability:
            Runs inside `PollToolTask`.
        """
        with _application_errors():
            return await self._tools.router.poll_tool_task(call)

    async def cancel_tool_task(self, call: DeferredToolExecution) -> None:
        """Cancel a task at the source that started it; see `PollsToolTasks.cancel_tool_task`.

        Durability:
            Runs when a turn is cancelled or steered; a repeat is harmless.
        """
        with _application_errors():
            await self._tools.router.cancel_tool_task(call)

    async def reconcile_tool_call(self, call: DeferredToolExecution) -> ToolReconciliation:
        """Ask the tool's own look-up, or its source; see `ReconcilesToolCalls.reconcile_tool_call`.

        Returns:
            What it found; `still_unknown` when a function tool is gone or has no look-up any more.

        Durability:
            Runs inside `ReconcileToolCall`; changes nothing.
        """
        with _application_errors():
            if call.tool_source_reference is not None:
                return await self._tools.router.reconcile_tool_call(call)
            tool = self._tools.find_function(call.tool_name)
            if tool is None:
                return ToolReconciliation.still_unknown()
            return await tool.reconcile(call.arguments, _build_context(call))

    async def estimate_input_tokens(self, turn: AgentTurnContext) -> int:
        """Return about how many input tokens the next call takes; see `CompactsContext`.

        It starts from what the provider reported for the call before, where that was the same model.

        Args:
            turn: The turn as committed.
        """
        with _application_errors():
            model = resolve_model(self._definition, turn.session_settings)
            offered = await self._offer_tools(turn, decode_run_state(turn.framework_run_state))
            request = self._build_request(turn, model, self._build_result_messages(turn), offered)
        return estimate_request(request, model, turn.input_token_anchor)

    def choose_compaction_cut(self, turn: AgentTurnContext, retained_tokens: int) -> int | None:
        """Choose what a summary is to cover; see `CompactsContext`.

        Args:
            turn: The turn as committed.
            retained_tokens: About how many tokens of messages are to stay.
        """
        return choose_cut(
            turn.messages,
            retained_tokens,
            model=resolve_model(self._definition, turn.session_settings),
            context_window_tokens=turn.context_window_tokens,
        )

    async def summarize_context(self, request: ContextSummaryRequest) -> SummarizedContext:
        """Summarise a part of the conversation; see `CompactsContext`.

        Args:
            request: What to summarise.

        Durability:
            Runs inside `RunModel`, with nothing streamed to viewers.
        """
        model = resolve_model(self._definition, request.session_settings)
        response = await generate_response(model, build_summary_request(request), SILENT_EVENTS)
        return SummarizedContext(
            text=response.text,
            usage=msgspec.structs.replace(response.usage, model_calls=1),
            model_call_metadata=describe_model_call(model, response),
        )

    def build_user_message(self, text: str) -> FrameworkMessage:
        """Return a user's text as a message to store; pure."""
        return build_user_text_message(text)

    @property
    def accepts_images(self) -> bool:
        """See `AcceptsImages`."""
        return self._definition.media_store is not None

    def build_user_message_with_images(
        self, text: str, images: tuple[AgentImageReference, ...]
    ) -> FrameworkMessage:
        """Return a user's text and images as a message to store; pure."""
        return build_user_text_message(text, images=images)

    def build_unfinished_turn_messages(
        self, turn_messages: Sequence[FrameworkMessage], open_calls: Sequence[AgentToolCall], note: str
    ) -> Sequence[FrameworkMessage]:
        """Return a result for every call that has none, then the note; pure.

        The note is user text to the model, so that it knows in the next turn what became of this one.

        Args:
            turn_messages: This turn's stored messages, in order.
            open_calls: Final records of calls whose result is not among those messages, in the asked order.
            note: One sentence on why the turn ended.
        """
        by_id = {call.tool_call_id: call for call in open_calls}
        unanswered = {call.tool_call_id: call for call in find_open_calls(turn_messages)}
        for call in open_calls:
            unanswered.setdefault(call.tool_call_id, _stored_call_of(call))
        return (
            *(_build_result_message(call, by_id.get(call.tool_call_id)) for call in unanswered.values()),
            build_user_text_message(note, is_note=True),
        )

    def prepare_tool_arguments(
        self, tool_name: str, arguments: str, tool_source_reference: str | None
    ) -> str:
        """Return the JSON text that would run for arguments which a person changed.

        Arguments that fit the tool run as the person wrote them; others are prepared first.

        Args:
            tool_name: The tool.
            arguments: JSON text.
            tool_source_reference: The source's; a tool that this Worker has not listed yet takes any object.

        Raises:
            InvalidInputError: The tool is gone or the arguments do not fit it; the text says where.
        """
        try:
            return self._tools.fit_arguments(tool_name, arguments, tool_source_reference)
        except LookupError:
            raise InvalidInputError("tool_name", texts.tool_not_available(tool_name)) from None
        except ArgumentsProblemError as problem:
            raise InvalidInputError("arguments", str(problem)) from None

    async def _decide_after_tools(
        self, turn: AgentTurnContext, results: Sequence[FrameworkMessage]
    ) -> TurnContinuation:
        hook = self._definition.decide_turn_continuation
        if hook is None or not results:
            return "default"
        return await ask_continuation_hook(hook, describe_tool_iteration(turn, results))

    async def _follow_response(
        self,
        turn: AgentTurnContext,
        state: RunState,
        results: tuple[FrameworkMessage, ...],
        *,
        offered: OfferedTools,
        model: ModelClient,
        response: ModelResponse,
    ) -> AgentTurnOutcome:
        usage = msgspec.structs.replace(response.usage, model_calls=1)
        text = replace_lone_surrogates(response.text)
        if not response.tool_calls and not text.strip():
            if response.refusal:
                declined = texts.model_declined(replace_lone_surrogates(response.refusal))
                return TurnCompleted(new_messages=results, usage=usage, turn_error=declined)
            if turn.attempt < limits.MAX_MODEL_CALL_ATTEMPTS:
                raise EmptyModelAnswerError(texts.empty_answer_error(turn.attempt))
            return TurnCompleted(
                new_messages=results, usage=usage, turn_error=texts.empty_answer_error(turn.attempt)
            )
        calls = build_stored_calls(turn, response.tool_calls)
        output = build_model_output_message(
            StoredModelOutput(
                provider=model.provider,
                api=model.api,
                item=build_native_item(response.item),
                text=text if text.strip() else "",
                tool_calls=calls,
            )
        )
        if not calls:
            return await self._follow_answer(turn, state, text, (*results, output), usage)
        if not self._offers_tools(state):
            refusal = texts.tool_call_over_model_call_limit(self._definition.max_model_calls_per_turn)
            refused = [build_tool_result_message(call, refusal) for call in calls]
            return TurnCompleted(new_messages=(*results, output, *refused), usage=usage)
        return ToolCallsRequested(
            framework_run_state=encode_run_state(RunState(state.model_calls + 1)),
            tool_calls=tuple(
                self._tools.build_deferred_call(turn, offered, call, asked.arguments, index)
                for index, (call, asked) in enumerate(zip(calls, response.tool_calls, strict=True))
            ),
            usage=usage,
            new_messages=(*results, output),
        )

    async def _follow_answer(
        self,
        turn: AgentTurnContext,
        state: RunState,
        text: str,
        new_messages: tuple[FrameworkMessage, ...],
        usage: AgentUsage,
    ) -> TurnCompleted | TurnContinued:
        with _application_errors():
            hook = self._definition.decide_turn_continuation
            decision = await ask_continuation_hook(hook, describe_answer(turn, text))
        if not isinstance(decision, ContinueTurn):
            return TurnCompleted(new_messages=new_messages, usage=usage)
        if state.consecutive_continuations >= MAX_CONSECUTIVE_TURN_CONTINUATIONS:
            return TurnCompleted(
                new_messages=new_messages,
                usage=usage,
                turn_error=texts.too_many_continuations(MAX_CONSECUTIVE_TURN_CONTINUATIONS),
            )
        going_on = RunState(state.model_calls + 1, state.consecutive_continuations + 1)
        return TurnContinued(
            framework_run_state=encode_run_state(going_on),
            new_messages=(*new_messages, build_user_text_message(decision.message)),
            usage=usage,
        )

    def _offers_tools(self, state: RunState) -> bool:
        return state.model_calls < self._definition.max_model_calls_per_turn

    async def _offer_tools(self, turn: AgentTurnContext, state: RunState) -> OfferedTools:
        return await self._tools.offer(turn) if self._offers_tools(state) else NO_TOOLS

    def _build_request(
        self,
        turn: AgentTurnContext,
        model: ModelClient,
        results: Sequence[FrameworkMessage],
        offered: OfferedTools,
    ) -> ModelRequest:
        request = ModelRequest(
            instructions=build_instructions(self._definition, turn),
            items=build_input_items(
                [*_with_plan_note(turn), *results],
                provider=model.provider,
                api=model.api,
                recorded_calls=turn.tool_calls,
                summary=None if turn.context_summary is None else turn.context_summary.text,
            ),
            tools=offered.model_tools,
            tool_choice=offered.tool_choice,
        )
        return limit_images(request, model)

    def _build_result_messages(self, turn: AgentTurnContext) -> tuple[FrameworkMessage, ...]:
        turn_messages = [message for message in turn.messages if message.turn_id == turn.turn_id]
        return tuple(
            _build_result_message(call, turn.recorded_tool_call(call.tool_call_id))
            for call in find_open_calls(turn_messages)
        )


@contextmanager
def _application_errors() -> Generator[None, None, None]:
    """Turn what the SDK would take for a mistake of the Step into an error that says what it was."""
    try:
        yield
    except _NOT_FOR_THE_SDK as error:
        raise AttemptFailedError(f"{type(error).__qualname__}: {error}") from error


def _build_context(call: DeferredToolExecution) -> ToolCallContext:
    return ToolCallContext(
        flow_id=call.flow_id,
        turn_id=call.turn_id,
        tool_call_id=call.tool_call_id,
        idempotency_key=call.idempotency_key,
        attempt=call.attempt,
        effect=call.effect,
        events=call.events,
        heartbeat=call.heartbeat,
        cancelled=call.cancelled,
        answers=call.answers,
        continuation=call.continuation,
    )


def _with_plan_note(turn: AgentTurnContext) -> list[AgentMessage | FrameworkMessage]:
    """Return the stored messages with the note on the plan before those of the turn."""
    messages: list[AgentMessage | FrameworkMessage] = [*turn.messages]
    note = build_plan_note(turn.plan, turn.interaction_mode)
    if note is not None:
        # Earlier turns are closed: no call is parted from its result here.
        first = sum(message.turn_id != turn.turn_id for message in turn.messages)
        messages.insert(first, build_user_text_message(note, is_note=True))
    return messages


def _stored_call_of(call: AgentToolCall) -> StoredToolCall:
    return StoredToolCall(call.tool_call_id, call.model_call_id, call.tool_name, call.arguments)


def _build_result_message(call: StoredToolCall, record: AgentToolCall | None) -> FrameworkMessage:
    if record is None:
        return build_tool_result_message(call, texts.OUTCOME_UNKNOWN_TOOL_RESULT)
    return build_tool_result_message(call, describe_tool_result(record), record.images)
