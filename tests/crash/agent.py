"""The agent of the crash tests: it asks for exactly the calls that the user's message names.

A Worker process builds it with `create_flow(folder, *pause_at)`. Each point in `pause_at` is a gate of that
Worker: `before <tool>` and `after <tool>` around what the tool does to the outside world, `delta <text>`
before a piece of the answer is streamed, `accept message` in the RPC that takes one, `enter <Step>` and
`leave <Step>` around a Step's code. At `leave` everything is decided and nothing is committed. With
`compacts` among them its context is so small that long outputs are soon summarised.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from dex import AsyncContext, StepDecision, StepList

from dex_agents import (
    AgentQuestion,
    AgentSessionOptions,
    CompactionPolicy,
    FrameworkMessage,
    ToolEffect,
    ToolInputRequested,
    texts,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ContinueTurn,
    FunctionTool,
    ModelOutputItem,
    ModelRequest,
    ModelUserTextItem,
    ToolCallContext,
    TurnContinuation,
    TurnContinuationContext,
    function_tool,
)
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.testing import (
    FileGate,
    InvocationLog,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
)
from dex_agents.wire.step_inputs import SessionStepInput

__all__ = [
    "BUILT_IN_TOOLS",
    "COMPACTS",
    "FLOW_TYPE",
    "INVOCATIONS",
    "ONCE_ONLY_TOOLS",
    "QUESTION_ID",
    "REQUESTS",
    "Ask",
    "build_answer",
    "build_message",
    "create_flow",
    "gate_at",
    "invocation_log",
    "read_requests",
]

FLOW_TYPE: Final = "CrashAgent"

_TOOLS: Final[dict[str, tuple[ToolEffect | None, bool | None, bool]]] = {
    "look_up": (ToolEffect.READ, None, False),
    "save_note": (ToolEffect.IDEMPOTENT_WRITE, None, False),
    "send_refund": (ToolEffect.NON_IDEMPOTENT_WRITE, None, False),
    "send_notice": (ToolEffect.NON_IDEMPOTENT_WRITE, False, False),
    "post_letter": (None, None, False),
    "book_entry": (ToolEffect.NON_IDEMPOTENT_WRITE, False, True),
    "sign_entry": (ToolEffect.NON_IDEMPOTENT_WRITE, None, True),
    "ask_and_send": (ToolEffect.NON_IDEMPOTENT_WRITE, False, False),
}
"""By name: the effect, whether a person is asked (`None`: as the effect says), and whether it is ordered."""

ONCE_ONLY_TOOLS: Final = tuple(
    name for name, (effect, _, _) in _TOOLS.items() if effect in (None, ToolEffect.NON_IDEMPOTENT_WRITE)
)
"""What must never happen twice outside."""

BUILT_IN_TOOLS: Final = ("ask_user", "durable_wait")
"""What the session runs itself: `ask_user` asks one question, `durable_wait` waits a moment."""

INVOCATIONS: Final = "invocations.jsonl"
REQUESTS: Final = "requests.jsonl"

COMPACTS: Final = "compacts"
"""Handed to `create_flow` in place of a point: the agent summarises."""

QUESTION_ID: Final = "sure"
"""Of every question that is asked."""

_GO_ON: Final = "go on"
_TO_BE_CONTINUED: Final = "to be continued"

_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "reference": {"type": "string"},
        "seconds": {"type": "number"},
        "failing_attempts": {"type": "integer"},
        "output_characters": {"type": "integer"},
    },
    "required": ["reference"],
}


class Ask(msgspec.Struct, frozen=True):
    """A call that a message has the model ask for.

    Attributes:
        tool_name: One of `_TOOLS` or `BUILT_IN_TOOLS`. `ask_and_send` asks a person before it does anything.
        reference: Names what it does to the outside world; unique in a test.
        seconds: How long it takes.
        failing_attempts: How many attempts raise, after they have been recorded.
        output_characters: How long a text it returns beside the reference.
    """

    tool_name: str
    reference: str
    seconds: float = 0.0
    failing_attempts: int = 0
    output_characters: int = 0


class _Script(msgspec.Struct, frozen=True):
    label: str
    responses: tuple[tuple[Ask, ...], ...] = ()
    model_fails: bool = False
    continuations: int = 0


def build_message(
    label: str, *responses: tuple[Ask, ...], model_fails: bool = False, continuations: int = 0
) -> str:
    """Return a user message: the model asks for each group of calls in turn, then answers or fails.

    Args:
        label: Stands in the answer.
        responses: The calls of each response.
        model_fails: Whether it fails in place of an answer.
        continuations: How often the application lets it go on after an answer.
    """
    return msgspec.json.encode(_Script(label, responses, model_fails, continuations)).decode()


def build_answer(label: str, results: int) -> str:
    """Return what the model says at the end of a turn with so many calls."""
    return f"I have finished {label} with {results} results."


def gate_at(folder: Path, point: str) -> FileGate:
    """Return the gate of a point."""
    return FileGate(folder / f"gate {point}")


def invocation_log(folder: Path) -> InvocationLog:
    """Return what the tools did, over all Workers."""
    return InvocationLog(folder / INVOCATIONS)


def read_requests(folder: Path) -> tuple[ModelRequest, ...]:
    """Return every request that the model was sent, in order, over all Workers."""
    path = folder / REQUESTS
    lines = path.read_bytes().splitlines() if path.exists() else []
    return tuple(msgspec.json.decode(line, type=ModelRequest) for line in lines)


def create_flow(folder: str, *pause_at: str) -> AgentSessionFlow:
    """Return the agent, with gates at the points named."""
    crash_agent = _CrashAgent(Path(folder), frozenset(pause_at))
    definition = AgentDefinition(
        name="crash agent",
        instructions=lambda context: context.flow_id,
        model=ScriptedModelClient(crash_agent.answer, before_delta=crash_agent.pause_before_delta),
        tools=tuple(crash_agent.build_tool(name) for name in _TOOLS),
        built_in_tools=BUILT_IN_TOOLS,
        decide_turn_continuation=_decide_continuation,
    )
    return _GatedSessionFlow(crash_agent, definition)


def _decide_continuation(context: TurnContinuationContext) -> TurnContinuation:
    unfinished = not context.tool_results and context.model_output[-1].text.endswith(_TO_BE_CONTINUED)
    return ContinueTurn(_GO_ON) if unfinished else "default"


class _CrashAgent:
    def __init__(self, folder: Path, pause_at: frozenset[str]) -> None:
        self._folder = folder
        self._pause_at = pause_at
        self.compacts = COMPACTS in pause_at
        self._log = invocation_log(folder)

    async def pause(self, point: str) -> None:
        if point in self._pause_at:
            await gate_at(self._folder, point).arrive()

    def pause_blocking(self, point: str) -> None:
        if point in self._pause_at:
            gate_at(self._folder, point).arrive_blocking()

    async def pause_before_delta(self, delta: str) -> None:
        await self.pause(f"delta {delta.strip()}")

    def answer(self, request: ModelRequest) -> ScriptedModelReply:
        with (self._folder / REQUESTS).open("ab", buffering=0) as requests:
            requests.write(msgspec.json.encode(request) + b"\n")
        if request.instructions == texts.CONTEXT_SUMMARY_INSTRUCTIONS:
            return ScriptedModelReply(text="What was said and done before.")
        script, responses, continued = _Script("nothing"), 0, 0
        for item in request.items:
            if isinstance(item, ModelUserTextItem) and item.text.startswith("{"):
                script, responses, continued = msgspec.json.decode(item.text, type=_Script), 0, 0
            elif isinstance(item, ModelUserTextItem):
                continued += item.text == _GO_ON
            elif isinstance(item, ModelOutputItem):
                responses += 1
        if responses < len(script.responses):
            return ScriptedModelReply(
                text="I will see to it.",
                tool_calls=tuple(
                    ScriptedToolCall(ask.tool_name, _arguments(ask)) for ask in script.responses[responses]
                ),
            )
        if script.model_fails:
            raise RuntimeError("the model does not answer")
        if continued < script.continuations:
            return ScriptedModelReply(text=f"Part {continued + 1} of {script.label}, {_TO_BE_CONTINUED}")
        results = len(ScriptedModelClient.tool_results(request))
        return ScriptedModelReply(text=build_answer(script.label, results))

    def build_tool(self, name: str) -> FunctionTool:
        effect, requires_approval, ordered = _TOOLS[name]

        async def execute(
            arguments: dict[str, Any], context: ToolCallContext
        ) -> dict[str, Any] | ToolInputRequested:
            if name == "ask_and_send" and QUESTION_ID not in context.answers:
                return ToolInputRequested((AgentQuestion(QUESTION_ID, "Really?"),))
            await self.pause(f"before {name}")
            self._log.record(
                name,
                idempotency_key=context.idempotency_key,
                arguments=arguments,
                attempt=context.attempt,
            )
            await asyncio.sleep(arguments["seconds"])
            if context.attempt <= arguments["failing_attempts"]:
                raise RuntimeError("the outside world did not answer")
            await self.pause(f"after {name}")
            text = "x" * arguments["output_characters"]
            return {"reference": arguments["reference"], "process": os.getpid(), "text": text}

        return function_tool(
            name=name,
            description=f"Does {name}.",
            parameters=_PARAMETERS,
            execute=execute,
            effect=effect,
            requires_approval=requires_approval,
            ordered=ordered,
        )


def _arguments(ask: Ask) -> dict[str, Any]:
    match ask.tool_name:
        case "ask_user":
            return {"questions": [{"id": QUESTION_ID, "question": ask.reference}]}
        case "durable_wait":
            return {"seconds": max(ask.seconds, 0.1), "reason": ask.reference}
        case _:
            return msgspec.to_builtins(ask)


class _GatedRunner(BuiltinLoopAgentRunner):
    """The runner as it is, with a gate where a message is accepted."""

    def __init__(self, crash_agent: _CrashAgent, definition: AgentDefinition) -> None:
        super().__init__(definition)
        self._crash_agent = crash_agent

    def build_user_message(self, text: str) -> FrameworkMessage:
        self._crash_agent.pause_blocking("accept message")
        return super().build_user_message(text)


class _GatedSessionFlow(AgentSessionFlow):
    """The session Flow as it is, with a gate before and after each Step's code."""

    def __init__(self, crash_agent: _CrashAgent, definition: AgentDefinition) -> None:
        options = AgentSessionOptions(
            cancel_grace=timedelta(seconds=2),
            built_in_tools=BUILT_IN_TOOLS,
            # Far below the window, so that no turn fails for want of room.
            compaction=CompactionPolicy(
                context_window_tokens=1_000_000, trigger_ratio=0.006, retained_ratio=0.002
            )
            if crash_agent.compacts
            else None,
        )
        super().__init__(_GatedRunner(crash_agent, definition), FLOW_TYPE, options)
        self._crash_agent = crash_agent

    def get_steps(self) -> StepList[SessionStepInput]:
        steps = super().get_steps()
        for definition in steps:
            step: Any = definition.step
            step.execute = self._gated(type(step).__name__, step.execute)
        return steps

    def _gated(
        self, name: str, execute: Callable[[AsyncContext, Any], Coroutine[Any, Any, StepDecision]]
    ) -> Callable[[AsyncContext, Any], Coroutine[Any, Any, StepDecision]]:
        # The SDK reads what a Step takes from the signature.
        @functools.wraps(execute)
        async def run(context: AsyncContext, step_input: Any) -> StepDecision:
            await self._crash_agent.pause(f"enter {name}")
            decision = await execute(context, step_input)
            await self._crash_agent.pause(f"leave {name}")
            return decision

        return run
