"""The built-in agent loop: an agent in Dex terms, without a framework.

Here live what an agent is (`definition`, `function_tool`), what a model client implements (`contract`), the
stored items and the requests built from them (`stored_items`, `input_items`), and the runner. No Step and no
storage lives here: those are the session's. Begin with `definition`, then `runner`.
"""

from dex_agents.builtin_loop.continuation import (
    MAX_CONSECUTIVE_TURN_CONTINUATIONS,
    ContinueTurn,
    TurnContinuation,
    TurnContinuationContext,
)
from dex_agents.builtin_loop.contract import (
    LimitsImages,
    ModelClient,
    ModelImageLimits,
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelTool,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
    ToolChoice,
)
from dex_agents.builtin_loop.definition import AgentDefinition, InstructionContext
from dex_agents.builtin_loop.flow import create_builtin_agent_session_flow
from dex_agents.builtin_loop.function_tool import FunctionTool, function_tool
from dex_agents.builtin_loop.function_tool_result import FunctionToolResult, function_tool_result
from dex_agents.builtin_loop.runner import BuiltinLoopAgentRunner
from dex_agents.builtin_loop.scripted_model import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall
from dex_agents.builtin_loop.tool_call_context import ToolCallContext
from dex_agents.tool_sources.contract import SourceTool, ToolSource

__all__ = [
    "MAX_CONSECUTIVE_TURN_CONTINUATIONS",
    "AgentDefinition",
    "BuiltinLoopAgentRunner",
    "ContinueTurn",
    "FunctionTool",
    "FunctionToolResult",
    "InstructionContext",
    "LimitsImages",
    "ModelClient",
    "ModelImageLimits",
    "ModelInputItem",
    "ModelOutputItem",
    "ModelRequest",
    "ModelResponse",
    "ModelTool",
    "ModelToolCall",
    "ModelToolResultItem",
    "ModelUserTextItem",
    "ScriptedModelClient",
    "ScriptedModelReply",
    "ScriptedToolCall",
    "SourceTool",
    "ToolCallContext",
    "ToolChoice",
    "ToolSource",
    "TurnContinuation",
    "TurnContinuationContext",
    "create_builtin_agent_session_flow",
    "function_tool",
    "function_tool_result",
]
