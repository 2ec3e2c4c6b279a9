"""The tool that runs a command in a session's folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from typing import Any, Final

from dex_agents import texts
from dex_agents.builtin_loop import FunctionTool, ToolCallContext, function_tool
from dex_agents.cli.file_tools import FindWorkspace
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["build_command_tool", "list_command_environment"]

MAX_OUTPUT_BYTES: Final = 30_000
"""Kept of a command's output: the first and the last half."""

_KILL_SECONDS: Final = 2.0
_SECRET_ENDINGS: Final = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")


def build_command_tool(find_workspace: FindWorkspace, timeout: int) -> FunctionTool:
    """Return `run_command`.

    Args:
        find_workspace: Finds the folder of a session.
        timeout: Seconds until a command is ended.
    """

    async def run_command(arguments: dict[str, Any], context: ToolCallContext) -> str:
        workspace = await find_workspace(context.flow_id)
        process = await asyncio.create_subprocess_shell(
            arguments["command"],
            cwd=workspace.folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=list_command_environment(os.environ),
            start_new_session=True,
        )
        output = _KeptOutput()
        reading = asyncio.ensure_future(_read_to_end(process, output))
        cancelled = asyncio.ensure_future(context.cancelled.wait())
        try:
            await asyncio.wait({reading, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return texts.cli_command_ended(output.text, process.returncode or 0)
            await _end(process)
            if cancelled.done():
                return texts.cli_command_cancelled(output.text)
            return texts.cli_command_timed_out(output.text, timeout)
        finally:
            cancelled.cancel()
            reading.cancel()
            if process.returncode is None:
                _signal(process, signal.SIGKILL)

    return function_tool(
        name="run_command",
        description=texts.cli_run_command(timeout),
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string", "minLength": 1}},
            "required": ["command"],
            "additionalProperties": False,
        },
        execute=run_command,
        effect=ToolEffect.NON_IDEMPOTENT_WRITE,
        requires_approval=True,
    )


def list_command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: that of the host, without what looks like a secret."""
    return {name: value for name, value in environment.items() if not name.upper().endswith(_SECRET_ENDINGS)}


class _KeptOutput:
    """The beginning and the end of a long output."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        half = MAX_OUTPUT_BYTES // 2
        room = half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > half:
            self._dropped += len(self._tail) - half
            del self._tail[:-half]

    @property
    def text(self) -> str:
        if not self._dropped:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return f"{head}\n{texts.cli_command_output_cut(self._dropped)}\n{tail}"


async def _read_to_end(process: Process, output: _KeptOutput) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(65_536):
        output.add(data)
    await process.wait()


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _KILL_SECONDS)
    # What the command started may outlive it.
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    # The group has the process's number as long as anything of it lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
