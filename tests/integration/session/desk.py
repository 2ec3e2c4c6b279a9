"""A whole agent in one process: engine, Worker and client, with a model that does what the user says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dex_agents import AgentSessionClient, AgentSessionFlow, AgentSessionOptions, AgentWorker
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionTool,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    ToolCallContext,
    create_builtin_agent_session_flow,
    function_tool,
)
from dex_agents.engine import LocalEngine
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.snapshots import SessionProgress
from dex_agents.wire.tool_calls import ToolEffect

Script = Callable[[ModelRequest], Any]


def asking(*calls: tuple[str, Any]) -> str:
    """Return a user text that makes `obedient` ask for tools."""
    return json.dumps([{"tool": tool, "arguments": arguments} for tool, arguments in calls])


def obedient(request: ModelRequest) -> ScriptedModelReply:
    """Ask for the tools that the user named, then answer with their results; echo any other text."""
    text = ScriptedModelClient.user_texts(request)[-1]
    results = ScriptedModelClient.tool_results(request)
    if results:
        return ScriptedModelReply(text=" | ".join(result.output for result in results))
    if not text.startswith("["):
        return ScriptedModelReply(text=f"you said: {text}")
    return ScriptedModelReply(
        tool_calls=tuple(ScriptedToolCall(call["tool"], call["arguments"]) for call in json.loads(text))
    )


def ordered_write(
    execute: Callable[[dict[str, str], ToolCallContext], Awaitable[str]],
    effect: ToolEffect = ToolEffect.IDEMPOTENT_WRITE,
) -> FunctionTool:
    """Return a tool `put {"name": …}` whose calls keep the model's order."""
    return function_tool(
        name="put",
        description="Write.",
        parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        execute=execute,
        effect=effect,
        ordered=True,
    )


def build_flow(
    tools: Sequence[FunctionTool] = (),
    script: Script = obedient,
    *,
    options: AgentSessionOptions | None = None,
    **fields: Any,
) -> AgentSessionFlow:
    """Return a session Flow for these tools."""
    definition = AgentDefinition(name="desk", model=ScriptedModelClient(script), tools=tools, **fields)
    return create_builtin_agent_session_flow(definition, "Desk", options=options)


@asynccontextmanager
async def serve(database: Path, flow: AgentSessionFlow) -> AsyncGenerator[AgentSessionClient, None]:
    """Run an engine and a Worker for a flow, and yield a client."""
    async with (
        LocalEngine(database) as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        yield client


async def wait_for_interrupts(
    client: AgentSessionClient, session_id: str, count: int
) -> tuple[AgentInterrupt, ...]:
    """Wait until a session asks, and check that it asks this many questions."""
    progress = await client.wait_for_attention(session_id, timeout=30)
    assert len(progress.interrupts) == count
    return progress.interrupts


async def ask(client: AgentSessionClient, session_id: str, text: str) -> SessionProgress:
    """Send a message and wait until its turn is over."""
    assert await client.send_user_message(session_id, text)
    return await client.wait_for_idle(session_id, timeout=30)


async def answers(client: AgentSessionClient, session_id: str) -> list[str | None]:
    """Return what the model said, one text a turn."""
    snapshot = await client.get_agent_snapshot(session_id)
    return [message.text for message in snapshot.messages if message.role == "assistant" and message.text]
