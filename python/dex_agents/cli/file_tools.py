"""Tools that read, list, search and write the files of a session's folder."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from dex_agents import texts
from dex_agents.builtin_loop import FunctionTool, ToolCallContext, function_tool
from dex_agents.cli.workspace import Workspace
from dex_agents.errors import ToolExecutionError
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["FindWorkspace", "build_file_tools"]

FindWorkspace = Callable[[str], Awaitable[Workspace]]
"""From a session ID to the folder of that session."""

MAX_READ_BYTES: Final = 200_000
MAX_LISTED_FILES: Final = 500
MAX_MATCHES: Final = 200
MAX_SEARCHED_BYTES: Final = 2_000_000
SEARCH_SECONDS: Final = 20.0
_MAX_LINE_CHARACTERS: Final = 400


def build_file_tools(find_workspace: FindWorkspace) -> tuple[FunctionTool, ...]:
    """Return `read_file`, `list_files`, `search_files` and `write_file`."""

    async def read_file(arguments: dict[str, Any], context: ToolCallContext) -> str:
        workspace = await find_workspace(context.flow_id)
        return await asyncio.to_thread(_read_file, workspace, **arguments)

    async def list_files(arguments: dict[str, Any], context: ToolCallContext) -> str:
        workspace = await find_workspace(context.flow_id)
        return await asyncio.to_thread(_list_files, workspace, **arguments)

    async def search_files(arguments: dict[str, Any], context: ToolCallContext) -> str:
        workspace = await find_workspace(context.flow_id)
        return await asyncio.to_thread(_search_files, workspace, context, **arguments)

    async def write_file(arguments: dict[str, Any], context: ToolCallContext) -> str:
        workspace = await find_workspace(context.flow_id)
        data = str(arguments["text"]).encode()
        await asyncio.to_thread(workspace.write, arguments["path"], data)
        return texts.cli_file_written(arguments["path"], len(data))

    return (
        function_tool(
            name="read_file",
            description=texts.CLI_READ_FILE,
            parameters=_object(
                {"path": {"type": "string"}, "first_line": _COUNT, "line_count": _COUNT}, "path"
            ),
            execute=read_file,
            effect=ToolEffect.READ,
        ),
        function_tool(
            name="list_files",
            description=texts.CLI_LIST_FILES,
            parameters=_object({"path": {"type": "string"}}),
            execute=list_files,
            effect=ToolEffect.READ,
        ),
        function_tool(
            name="search_files",
            description=texts.CLI_SEARCH_FILES,
            parameters=_object(
                {"text": {"type": "string", "minLength": 1}, "path": {"type": "string"}}, "text"
            ),
            execute=search_files,
            effect=ToolEffect.READ,
        ),
        function_tool(
            name="write_file",
            description=texts.CLI_WRITE_FILE,
            parameters=_object({"path": {"type": "string"}, "text": {"type": "string"}}, "path", "text"),
            execute=write_file,
            effect=ToolEffect.IDEMPOTENT_WRITE,
            requires_approval=True,
        ),
    )


_COUNT: Final = {"type": "integer", "minimum": 1}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _read_file(workspace: Workspace, path: str, first_line: int = 1, line_count: int | None = None) -> str:
    data = workspace.read(path, MAX_SEARCHED_BYTES + 1)
    if b"\0" in data[:8192]:
        raise ToolExecutionError(texts.cli_path_failed(path, "it is not a text file"))
    lines = data.decode(errors="replace").splitlines(keepends=True)
    last = len(lines) if line_count is None else first_line - 1 + line_count
    text = "".join(lines[first_line - 1 : last])
    if len(text.encode()) <= MAX_READ_BYTES and len(data) <= MAX_SEARCHED_BYTES:
        return text
    cut = text.encode()[:MAX_READ_BYTES].decode(errors="ignore")
    return cut + texts.cli_output_cut(MAX_READ_BYTES)


def _list_files(workspace: Workspace, path: str = ".") -> str:
    found = list(itertools.islice(workspace.list_files(path), MAX_LISTED_FILES + 1))
    listed = "\n".join(f"{name} ({size} bytes)" for name, size in found[:MAX_LISTED_FILES])
    if len(found) > MAX_LISTED_FILES:
        return f"{listed}\n{texts.cli_list_cut(MAX_LISTED_FILES)}"
    return listed


def _search_files(workspace: Workspace, context: ToolCallContext, text: str, path: str = ".") -> str:
    # A text and no expression: a model's expression could hold this process for ever.
    wanted = text.casefold()
    deadline = time.monotonic() + SEARCH_SECONDS
    matches: list[str] = []
    for name, size in workspace.list_files(path):
        if context.cancelled.is_set() or time.monotonic() > deadline:
            matches.append(texts.CLI_SEARCH_STOPPED)
            break
        if size > MAX_SEARCHED_BYTES:
            continue
        data = workspace.read(name, MAX_SEARCHED_BYTES)
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if wanted in line.casefold():
                matches.append(f"{name}:{number}: {line[:_MAX_LINE_CHARACTERS]}")
                if len(matches) >= MAX_MATCHES:
                    return "\n".join((*matches, texts.cli_list_cut(MAX_MATCHES)))
    return "\n".join(matches)
