"""Durable AI agent sessions: one Flow run of the Dex engine is one session.

Build a Flow (`dex_agents.builtin_loop.create_builtin_agent_session_flow`), run it on an `AgentWorker`, talk
to its sessions through an `AgentSessionClient`. `dex_agents.engine.LocalEngine` is an engine in this process;
a Dex Server takes its place by its address alone.
"""

from __future__ import annotations

from typing import Final

from dex_agents.codecs.attributes import build_session_registry, session_codecs
from dex_agents.errors import (
    AttemptFailedError,
    DexAgentsError,
    EngineAddressError,
    EngineDatabaseError,
    EngineError,
    EngineInUseError,
    EngineUnreachableError,
    ImageValidationError,
    InvalidInputError,
    MediaStoreError,
    ModelCallError,
    ModelCallRefusedError,
    RunnerContractError,
    SessionAlreadyExistsError,
    SessionClosedError,
    SessionError,
    SessionNotFoundError,
    SessionTimeoutError,
    SessionUnavailableError,
    ToolDeclarationError,
    ToolExecutionError,
    ToolOutcomeUnknownError,
    ToolSourceUnavailableError,
    WireFormatError,
)
from dex_agents.limits import (
    ESTIMATED_IMAGE_INPUT_TOKENS,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_URI_LENGTH,
    MAX_IMAGES_PER_MESSAGE,
)
from dex_agents.media.contract import MediaStore
from dex_agents.media.image_check import ImageCheck, check_image, check_images
from dex_agents.media.local_directory import LocalDirectoryMediaStore
from dex_agents.media.memory import InMemoryMediaStore
from dex_agents.media.references import (
    build_image_reference,
    load_images,
    require_short_image_uris,
    require_store_image_reference,
    validate_image_reference,
    validate_image_references,
    verify_image_bytes,
)
from dex_agents.runner.contract import (
    AgentFrameworkRunner,
    CompactsContext,
    ContextSummaryRequest,
    EditsToolArguments,
    PollsToolTasks,
    ReconcilesToolCalls,
    SupportsPlanMode,
)
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    DeferredToolCall,
    ModelCallMetadata,
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
from dex_agents.session.client import AgentSessionClient
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.session.events import SessionEvents
from dex_agents.session.flow import AgentSessionFlow, create_agent_session_flow
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.session_reader import WaitingSession
from dex_agents.session.spend import SpendCheck, SpendLimiter, SpendRefused
from dex_agents.session.worker import AgentWorker
from dex_agents.texts import OUTCOME_UNKNOWN_TOOL_RESULT
from dex_agents.tool_sources.contract import BuildsDeferredCalls, SourceTool, ToolSource
from dex_agents.tool_sources.listing import ListedTool, ToolListing
from dex_agents.tool_sources.router import ToolSourceRouter
from dex_agents.tools.builtin import (
    BuiltInTool,
)
from dex_agents.tools.plan_note import build_plan_note
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.events import (
    AgentEvent,
    ContextCompacted,
    InterruptClosed,
    InterruptOpened,
    ModelCompleted,
    ModelStarted,
    PlanUpdated,
    ReasoningDelta,
    SessionClosed,
    SettingsUpdated,
    TextDelta,
    ToolCallCompleted,
    ToolCallProgress,
    ToolCallRequested,
    ToolCallStarted,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
    TurnStarted,
    UserMessageEvent,
)
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.interrupts import (
    AgentInterrupt,
    AgentQuestion,
    InterruptKind,
    QuestionOption,
)
from dex_agents.wire.messages import AgentMessage, AgentUserMessage, FrameworkMessage, QueuedMessage
from dex_agents.wire.plans import (
    AgentPlan,
    InteractionMode,
    PlanStatus,
    PlanTodo,
    TodoStatus,
)
from dex_agents.wire.sessions import SessionStatus, SessionSummary, TurnOutcome
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.spend import SpendReport
from dex_agents.wire.tool_calls import (
    AgentToolCall,
    Answer,
    ApprovalDecision,
    ResolvedToolPolicy,
    ToolApproval,
    ToolCallStatus,
    ToolEffect,
    ToolPolicy,
    ToolSettlement,
)
from dex_agents.wire.usage import AgentUsage, ModelUsage, add_agent_usage, empty_agent_usage

__version__: Final = "0.5.0"

__all__ = [
    "ESTIMATED_IMAGE_INPUT_TOKENS",
    "MAX_IMAGES_PER_MESSAGE",
    "MAX_IMAGE_BYTES",
    "MAX_IMAGE_URI_LENGTH",
    "OUTCOME_UNKNOWN_TOOL_RESULT",
    "AgentEvent",
    "AgentEventWriter",
    "AgentFrameworkRunner",
    "AgentImageReference",
    "AgentInterrupt",
    "AgentMessage",
    "AgentPlan",
    "AgentQuestion",
    "AgentSessionClient",
    "AgentSessionFlow",
    "AgentSessionOptions",
    "AgentSnapshot",
    "AgentToolCall",
    "AgentTurnContext",
    "AgentTurnOutcome",
    "AgentUsage",
    "AgentUserMessage",
    "AgentWorker",
    "Answer",
    "ApprovalDecision",
    "AttemptFailedError",
    "BuildsDeferredCalls",
    "BuiltInTool",
    "CompactionPolicy",
    "CompactsContext",
    "ContextCompacted",
    "ContextSummary",
    "ContextSummaryRequest",
    "DeferredToolCall",
    "DeferredToolExecution",
    "DexAgentsError",
    "EditsToolArguments",
    "EngineAddressError",
    "EngineDatabaseError",
    "EngineError",
    "EngineInUseError",
    "EngineUnreachableError",
    "FrameworkMessage",
    "ImageCheck",
    "ImageValidationError",
    "InMemoryMediaStore",
    "InteractionMode",
    "InterruptClosed",
    "InterruptKind",
    "InterruptOpened",
    "InvalidInputError",
    "ListedTool",
    "LocalDirectoryMediaStore",
    "MediaStore",
    "MediaStoreError",
    "ModelCallError",
    "ModelCallMetadata",
    "ModelCallRefusedError",
    "ModelCompleted",
    "ModelStarted",
    "ModelUsage",
    "PlanStatus",
    "PlanTodo",
    "PlanUpdated",
    "PollsToolTasks",
    "QuestionOption",
    "QueuedMessage",
    "ReasoningDelta",
    "ReconcilesToolCalls",
    "ResolvedToolPolicy",
    "RunnerContractError",
    "SessionAlreadyExistsError",
    "SessionClosed",
    "SessionClosedError",
    "SessionError",
    "SessionEvents",
    "SessionNotFoundError",
    "SessionProgress",
    "SessionStatus",
    "SessionSummary",
    "SessionTimeoutError",
    "SessionUnavailableError",
    "SettingsUpdated",
    "SourceTool",
    "SpendCheck",
    "SpendLimiter",
    "SpendRefused",
    "SpendReport",
    "SummarizedContext",
    "SupportsPlanMode",
    "TextDelta",
    "TodoStatus",
    "ToolApproval",
    "ToolCallCompleted",
    "ToolCallProgress",
    "ToolCallRequested",
    "ToolCallStarted",
    "ToolCallStatus",
    "ToolCallsRequested",
    "ToolDeclarationError",
    "ToolEffect",
    "ToolExecutionError",
    "ToolExecutionResult",
    "ToolInputRequested",
    "ToolListing",
    "ToolOutcome",
    "ToolOutcomeUnknownError",
    "ToolPolicy",
    "ToolReconciliation",
    "ToolSettlement",
    "ToolSource",
    "ToolSourceRouter",
    "ToolSourceUnavailableError",
    "ToolTaskStarted",
    "TurnCancelled",
    "TurnCompleted",
    "TurnCompletedEvent",
    "TurnContinued",
    "TurnFailed",
    "TurnOutcome",
    "TurnStarted",
    "UserMessageEvent",
    "WaitingSession",
    "WireFormatError",
    "__version__",
    "add_agent_usage",
    "build_image_reference",
    "build_plan_note",
    "build_session_registry",
    "check_image",
    "check_images",
    "create_agent_session_flow",
    "empty_agent_usage",
    "load_images",
    "require_short_image_uris",
    "require_store_image_reference",
    "session_codecs",
    "validate_image_reference",
    "validate_image_references",
    "verify_image_bytes",
]
