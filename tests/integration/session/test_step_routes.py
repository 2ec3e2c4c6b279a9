"""The routes that Steps really take, against the table of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from dex import AsyncContext, Step, StepDecision, StepList

from dex_agents import AgentSessionClient, AgentSessionFlow, AgentSessionOptions, ToolOutcomeUnknownError
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ToolCallContext,
    function_tool,
)
from dex_agents.runner.outcomes import ToolInputRequested, ToolReconciliation
from dex_agents.session.step_routes import STEP_ROUTES
from dex_agents.testing import InvocationLog
from dex_agents.wire.events import ToolCallStarted
from dex_agents.wire.interrupts import AgentQuestion
from dex_agents.wire.step_inputs import SessionStepInput
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import asking, obedient, serve
from tests.integration.session.task_source import TaskServer, TaskSource

_UNREPEATABLE = {
    # Needs a message that comes between the decision to end and its commit.
    ("CloseSession", "CloseSession"),
}


class _RecordingFlow(AgentSessionFlow):
    """The session Flow as it is; remembers which Step scheduled which."""

    def __init__(self, definition: AgentDefinition, options: AgentSessionOptions) -> None:
        super().__init__(BuiltinLoopAgentRunner(definition), "Desk", options)
        self.taken: set[tuple[str, str]] = set()

    def get_steps(self) -> StepList[SessionStepInput]:
        steps = super().get_steps()
        for definition in steps:
            step: Any = definition.step
            step.execute = self._recorded(step, step.execute)
        return steps

    def _recorded(
        self, step: Step[Any], execute: Callable[[AsyncContext, Any], Coroutine[Any, Any, StepDecision]]
    ) -> Callable[[AsyncContext, Any], Coroutine[Any, Any, StepDecision]]:
        name = type(step).__name__

        @functools.wraps(execute)
        async def run(context: AsyncContext, step_input: Any) -> StepDecision:
            recovery = context.recovery_error
            if name in ("FailTurn", "RecordToolFailure") and recovery is not None:
                self.taken.add((context.from_step_execution_id.rpartition("-")[0], name))
            decision = await execute(context, step_input)
            self.taken |= {(name, movement.step.__name__) for movement in decision.movements}
            return decision

        return run


def _build_flow(folder: Path, effect: ToolEffect) -> _RecordingFlow:
    def look_up(arguments: dict[str, Any], context: ToolCallContext) -> ToolReconciliation:
        if arguments["how"] == "lose for good":
            raise RuntimeError("the look-up fails")
        return ToolReconciliation("succeeded", "found")

    async def act(arguments: dict[str, Any], context: ToolCallContext) -> object:
        match arguments["how"]:
            case "ask" if not context.answers:
                return ToolInputRequested((AgentQuestion("q", "Which one?"),))
            case "lose" | "lose for good":
                raise ToolOutcomeUnknownError("no answer")
            case "die":
                raise RuntimeError("died")
            case "never end":
                return await asyncio.Event().wait()
            case _:
                return "done"

    tools = [
        function_tool(
            name=name,
            description="Act.",
            parameters={"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
            execute=act,
            effect=effect,
            ordered=name in ("write", "signed_write"),
            requires_approval=name in ("signed", "signed_write"),
            reconcile=look_up if name == "traced" else None,
        )
        for name in ("plain", "write", "signed", "signed_write", "traced")
    ]
    server = TaskServer(folder / "tasks.db", InvocationLog(folder / "log.db"))

    def script(request: ModelRequest) -> ScriptedModelReply:
        if ScriptedModelClient.user_texts(request)[-1] == "fail":
            raise RuntimeError("no model")
        return obedient(request)

    definition = AgentDefinition(
        name="desk",
        model=ScriptedModelClient(script),
        tools=tools,
        tool_sources=[TaskSource(server, effect=effect)],
        built_in_tools=["ask_user", "durable_wait"],
    )
    options = AgentSessionOptions(
        built_in_tools=["ask_user", "durable_wait"],
        cancel_grace=timedelta(seconds=1),
        keep_turns=1,
        drop_uncovered=True,
    )
    return _RecordingFlow(definition, options)


async def _take_part(client: AgentSessionClient, session_id: str) -> None:
    """Approve and answer whatever is asked until the session is idle."""
    while (progress := await client.wait_for_attention(session_id)).interrupts or progress.status != "idle":
        for interrupt in progress.interrupts:
            if interrupt.kind == "approval" and session_id == "rejected":
                await client.resolve_interrupt(session_id, interrupt.interrupt_id, "reject")
            elif interrupt.kind == "approval":
                await client.resolve_interrupt(session_id, interrupt.interrupt_id, "approve")
            elif interrupt.kind == "question":
                given = {question.id: "this" for question in interrupt.questions}
                await client.answer_question(session_id, interrupt.interrupt_id, given)


async def _talk(client: AgentSessionClient, session_id: str, text: str) -> None:
    await client.start_session(session_id, first_message=text)
    await _take_part(client, session_id)
    if session_id == "fails":
        while (await client.get_agent_snapshot(session_id)).dropped_messages == 0:
            await client.send_user_message(session_id, text)
            await client.wait_for_idle(session_id)


async def _steer_and_close(client: AgentSessionClient) -> None:
    await client.start_session("steered")
    await client.send_user_message("steered", asking(("signed", {"how": "do"})))
    await client.wait_for_attention("steered")
    await client.steer_user_message("steered", "never mind")
    await client.wait_for_idle("steered")
    while (await client.get_agent_snapshot("steered")).dropped_messages == 0:
        await client.send_user_message("steered", "again")
        await client.wait_for_idle("steered")
    await client.close_session("steered")


async def _cancel_what_does_not_end(client: AgentSessionClient) -> None:
    await client.start_session("stuck")
    while (snapshot := await client.get_agent_snapshot("stuck")).dropped_messages == 0:
        await client.send_user_message("stuck", asking(("plain", {"how": "never end"})))
        async for event in client.events("stuck", since=snapshot):
            if isinstance(event, ToolCallStarted):
                break
        await client.cancel_turn("stuck")
        await client.wait_for_idle("stuck")


async def test_every_route_of_the_table_is_taken_and_no_other(tmp_path: Path) -> None:
    questions = [{"id": "q", "question": "Which one?"}]
    texts = {
        "calls": asking(
            ("plain", {"how": "do"}),
            ("signed", {"how": "do"}),
            ("write", {"how": "do"}),
            ("write", {"how": "do"}),
            ("signed_write", {"how": "do"}),
            ("ask_user", {"questions": questions}),
            ("durable_wait", {"seconds": 1, "reason": "a pause"}),
        ),
        "question": asking(("ask_user", {"questions": questions})),
        "wait": asking(("durable_wait", {"seconds": 1, "reason": "a pause"})),
        "rejected": asking(("signed", {"how": "do"})),
        "asks": asking(("plain", {"how": "ask"})),
        "task": asking(("run_task", {"polls": 1, "question": "Which one?"})),
        "lost": asking(("traced", {"how": "lose"})),
        "lost for good": asking(("traced", {"how": "lose for good"})),
        "dies": asking(("plain", {"how": "die"})),
        "dies and is found": asking(("traced", {"how": "die"})),
        "refused": asking(("nothing", {})),
        "fails": "fail",
    }
    taken: set[tuple[str, str]] = set()
    for effect in (ToolEffect.IDEMPOTENT_WRITE, ToolEffect.NON_IDEMPOTENT_WRITE):
        folder = tmp_path / effect.value
        folder.mkdir()
        flow = _build_flow(folder, effect)
        async with serve(folder / "a.db", flow) as client, asyncio.TaskGroup() as group:
            for session_id, text in texts.items():
                group.create_task(_talk(client, session_id, text))
            group.create_task(_steer_and_close(client))
            group.create_task(_cancel_what_does_not_end(client))
        taken |= flow.taken
    listed = {(step, following) for step, routes in STEP_ROUTES.items() for following in routes}
    assert taken - listed == set()
    assert listed - taken == _UNREPEATABLE
