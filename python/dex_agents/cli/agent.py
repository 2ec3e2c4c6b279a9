"""A configuration → the session Flow of its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from dex_agents import texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionTool,
    ModelClient,
    create_builtin_agent_session_flow,
)
from dex_agents.cli.command_tool import build_command_tool
from dex_agents.cli.config import DEMO_MODEL, AgentConfig
from dex_agents.cli.demo_model import build_demo_model
from dex_agents.cli.file_tools import FindWorkspace, build_file_tools
from dex_agents.cli.workspace import Workspace
from dex_agents.errors import InvalidInputError, ToolExecutionError
from dex_agents.media.contract import MediaStore
from dex_agents.session.client import AgentSessionClient
from dex_agents.session.flow import AgentSessionFlow

__all__ = ["FLOW_TYPE", "SessionFolders", "build_flow", "build_model"]

FLOW_TYPE: Final = "CommandLineAgent"
"""Names the sessions on the engine. Each agent has a database of its own, so one name does for all."""


class SessionFolders:
    """Finds the folder of a session: the settings hold it, and it never changes."""

    def __init__(self) -> None:
        """Know no folder; `client` is set once there is one."""
        self.client: AgentSessionClient | None = None
        self._known: dict[str, asyncio.Task[str]] = {}

    async def find(self, session_id: str) -> Workspace:
        """Return the folder of a session.

        Raises:
            ToolExecutionError: It has none, or the folder is gone.

        Durability:
            Reads committed settings, so every attempt of a call works in the same folder.
        """
        reading = self._known.get(session_id)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception())):
            reading = self._known[session_id] = asyncio.ensure_future(self._read(session_id))
        # The calls of one response share a look-up; one that is cancelled must not take the others along.
        return Workspace(await asyncio.shield(reading))

    async def _read(self, session_id: str) -> str:
        if self.client is None:
            raise RuntimeError("the host is not connected yet")
        settings = (await self.client.get_agent_snapshot(session_id)).session_settings
        folder = settings.get("folder")
        if not isinstance(folder, str) or not folder:
            raise ToolExecutionError(texts.cli_folder_missing("of this session"))
        return folder


def build_flow(
    config: AgentConfig, media_store: MediaStore, find_workspace: FindWorkspace | None = None
) -> AgentSessionFlow:
    """Make the Flow.

    Args:
        config: What the agent is.
        media_store: Keeps the images of its sessions.
        find_workspace: For the tools; a client that runs no tool needs none.
    """
    models: dict[str, ModelClient] = {}

    def resolve_model(settings: Mapping[str, Any]) -> ModelClient:
        name = str(settings.get("model") or config.model)
        if name not in models:
            models[name] = build_model(name)
        return models[name]

    definition = AgentDefinition(
        name="command line agent",
        instructions=config.instructions,
        model=build_demo_model(),
        resolve_model=resolve_model,
        tools=_build_tools(config, find_workspace or _find_nothing),
        built_in_tools=("ask_user", "write_todos"),
        max_model_calls_per_turn=config.max_model_calls,
        tool_output_ascii=False,
        media_store=media_store,
    )
    return create_builtin_agent_session_flow(definition, FLOW_TYPE)


def build_model(name: str) -> ModelClient:
    """Return the client of a model.

    Args:
        name: `demo`, or a name that `model_from_name` takes.

    Raises:
        InvalidInputError: The name is none, or its client cannot be made.
    """
    if name == DEMO_MODEL:
        return build_demo_model()
    from importlib import import_module

    try:
        clients = import_module("dex_agents.builtin_loop.model_clients")
    except ModuleNotFoundError as error:
        if error.name != "dex_agents.builtin_loop.model_clients":
            raise
        raise InvalidInputError(
            "model", f"{name}: this version has no model clients; use {DEMO_MODEL}"
        ) from None
    try:
        model: ModelClient = clients.model_from_name(name)
    except ImportError as error:
        raise InvalidInputError("model", f"{name}: {error}") from None
    return model


def _build_tools(config: AgentConfig, find_workspace: FindWorkspace) -> tuple[FunctionTool, ...]:
    tools = (*build_file_tools(find_workspace), build_command_tool(find_workspace, config.command_timeout))
    return tuple(tool for tool in tools if tool.name in config.tools)


async def _find_nothing(session_id: str) -> Workspace:
    raise RuntimeError(f"no tool runs here, asked for {session_id!r}")
