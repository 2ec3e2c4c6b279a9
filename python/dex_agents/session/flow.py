"""The session Flow: one run is one session, under any runner."""

from __future__ import annotations

from dex import Flow, PersistenceSchema, StepList, Stream

from dex_agents.runner.contract import AgentFrameworkRunner, CompactsContext
from dex_agents.session.flow_graph import FlowGraph, StepClasses
from dex_agents.session.input_checks import require_identifier
from dex_agents.session.interrupt_rpcs import InterruptRpcs
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.persistence import build_event_stream, build_schema
from dex_agents.session.read_rpcs import ReadRpcs
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.apply_retention import ApplyRetention
from dex_agents.session.steps.call_tool import (
    CallSingleAttemptTool,
    CallTool,
    ReconcileToolCall,
    RecordToolFailure,
)
from dex_agents.session.steps.cancel_turn import CancelTurn
from dex_agents.session.steps.lifecycle import AwaitUserMessage, CloseSession, StartSession
from dex_agents.session.steps.remote_tasks import PollToolTask
from dex_agents.session.steps.run_model import FailTurn, ResumeTurn, RunModel
from dex_agents.session.steps.waits import (
    AwaitEarlierWrite,
    AwaitQuestionAnswer,
    AwaitToolApproval,
    AwaitWaitEnd,
)
from dex_agents.session.turn_rpcs import TurnRpcs
from dex_agents.wire.step_inputs import SessionStepInput

__all__ = ["AgentSessionFlow", "create_agent_session_flow"]

_STEP_CLASSES = StepClasses(
    await_user_message=AwaitUserMessage,
    apply_retention=ApplyRetention,
    run_model=RunModel,
    fail_turn=FailTurn,
    resume_turn=ResumeTurn,
    cancel_turn=CancelTurn,
    close_session=CloseSession,
    call_tool=CallTool,
    call_single_attempt_tool=CallSingleAttemptTool,
    record_tool_failure=RecordToolFailure,
    await_tool_approval=AwaitToolApproval,
    await_question_answer=AwaitQuestionAnswer,
    await_wait_end=AwaitWaitEnd,
    await_earlier_write=AwaitEarlierWrite,
    poll_tool_task=PollToolTask,
    reconcile_tool_call=ReconcileToolCall,
)


class AgentSessionFlow(TurnRpcs, InterruptRpcs, ReadRpcs, Flow[SessionStepInput]):
    """Durable agent sessions under one runner.

    Build it once in a process and hand the same object to the Worker and to every client.

    Attributes:
        options: What the application chose.
    """

    def __init__(
        self, runner: AgentFrameworkRunner, flow_type: str, options: AgentSessionOptions | None = None
    ) -> None:
        """Create the Flow.

        Args:
            runner: Thinks for the sessions.
            flow_type: Names this kind of agent on the engine; Workers with the same name share its sessions.
            options: Defaults to `AgentSessionOptions()`.

        Raises:
            InvalidInputError: `flow_type` is blank, too long, or has a character that an engine cannot take.
            TypeError: The options ask for something that the runner has no methods for.
        """
        require_identifier("flow_type", flow_type, forbidden="\"'/$:")
        self.options = options if options is not None else AgentSessionOptions()
        _require_methods_of_options(runner, self.options)
        self._flow_type = flow_type
        self._events = build_event_stream(self.options.event_stream_capacity_bytes)
        self._runtime = SessionRuntime(runner, self.options, self._events)
        self._graph = FlowGraph(_STEP_CLASSES, self.options)

    @property
    def runner(self) -> AgentFrameworkRunner:
        """What thinks for the sessions."""
        return self._runtime.runner

    @property
    def graph(self) -> FlowGraph:
        """Which Step follows which, with what options."""
        return self._graph

    @property
    def event_stream(self) -> Stream[str]:
        """The Stream of live events; `AgentSessionClient.events` reads it."""
        return self._events

    def get_flow_type(self) -> str:
        """Return the Flow type on the engine."""
        return self._flow_type

    def get_steps(self) -> StepList[SessionStepInput]:
        """Return the Steps; their class names are their names in history and search."""
        runtime, graph = self._runtime, self._graph
        return (
            StepList[SessionStepInput]
            .start_step(StartSession(runtime, graph))
            .other_steps(
                AwaitUserMessage(runtime, graph),
                ApplyRetention(runtime),
                RunModel(runtime, graph),
                FailTurn(runtime, graph),
                ResumeTurn(graph),
                CancelTurn(runtime, graph),
                CloseSession(runtime, graph),
                CallTool(runtime, graph),
                CallSingleAttemptTool(runtime, graph),
                RecordToolFailure(runtime, graph),
                ReconcileToolCall(runtime, graph),
                PollToolTask(runtime, graph),
                AwaitToolApproval(runtime, graph),
                AwaitQuestionAnswer(runtime, graph),
                AwaitWaitEnd(runtime, graph),
                AwaitEarlierWrite(runtime, graph),
            )
        )

    def get_persistence_schema(self) -> PersistenceSchema:
        """Return what a session stores."""
        return build_schema(self._events)


def _require_methods_of_options(runner: AgentFrameworkRunner, options: AgentSessionOptions) -> None:
    if options.compaction is not None and not isinstance(runner, CompactsContext):
        raise TypeError(
            f"a compaction policy needs a runner with estimate_input_tokens, choose_compaction_cut and "
            f"summarize_context; {type(runner).__name__} has not all of them"
        )
    if options.plan_mode_enabled and not getattr(runner, "supports_plan_mode", False):
        raise TypeError("plan_mode_enabled needs a runner whose supports_plan_mode is true")


def create_agent_session_flow(
    runner: AgentFrameworkRunner, flow_type: str, options: AgentSessionOptions | None = None
) -> AgentSessionFlow:
    """Return a session Flow; the same as calling `AgentSessionFlow`."""
    return AgentSessionFlow(runner, flow_type, options)
