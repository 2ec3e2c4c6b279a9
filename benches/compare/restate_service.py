"""The Restate service of `restate_turns`: a session is a virtual object, and its messages are one state key.

    python -m hypercorn benches.compare.restate_service:app

Its tools are counted in this process, so it must have one worker.
"""

# Restate is installed for `make bench-turns` alone.
# pyright: reportMissingImports=false

from typing import Any, Final

import restate
from restate import Context, ObjectContext, ObjectSharedContext, Service, VirtualObject

from benches.workloads.turns import ANSWER, TOOLS, expect_messages

__all__ = ["app"]

_MESSAGES: Final = "messages"
_OUTPUTS: Final = {use.name: use.output for use in TOOLS}

_tool_runs: Final[list[str]] = []

session: Final = VirtualObject("Session")
tool_log: Final = Service("ToolLog")


@session.handler()
async def run_turn(context: ObjectContext, question: str) -> str:
    """Answer a question; the model's calls and the tools are steps of the invocation's journal."""
    messages = await _read_messages(context)
    messages.append({"role": "user", "text": question})
    asked = await context.run_typed("call_model", _call_model, messages=messages)
    messages.append(asked)
    runs = [context.run_typed(call["name"], _run_tool, name=call["name"]) for call in asked["tool_calls"]]
    await restate.gather(*runs)
    messages.extend([{"role": "tool", "text": await run} for run in runs])
    answer = await context.run_typed("call_model", _call_model, messages=messages)
    messages.append(answer)
    context.set(_MESSAGES, messages)
    return answer["text"]


@session.handler(kind="shared")
async def read_messages(context: ObjectSharedContext) -> list[dict[str, Any]]:
    """Return the session's messages."""
    return await _read_messages(context)


@session.handler()
async def fill(context: ObjectContext, turns: int) -> None:
    """Store what a session holds after so many turns."""
    calls = _ask_for_tools()["tool_calls"]
    messages: list[dict[str, Any]] = []
    for stored in expect_messages(turns):
        message: dict[str, Any] = {"role": stored.role, "text": stored.text}
        if stored.role == "assistant" and not stored.text:
            message["tool_calls"] = calls
        messages.append(message)
    context.set(_MESSAGES, messages)


@tool_log.handler()
async def count(_context: Context) -> int:
    """Say how often a tool was run in this process."""
    return len(_tool_runs)


async def _read_messages(context: ObjectContext | ObjectSharedContext) -> list[dict[str, Any]]:
    stored: list[dict[str, Any]] | None = await context.get(_MESSAGES)
    return stored or []


async def _call_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if messages[-1]["role"] == "user":
        return _ask_for_tools()
    return {"role": "assistant", "text": ANSWER}


async def _run_tool(name: str) -> str:
    _tool_runs.append(name)
    return _OUTPUTS[name]


def _ask_for_tools() -> dict[str, Any]:
    calls = [{"name": use.name, "arguments": {use.argument: use.value}} for use in TOOLS]
    return {"role": "assistant", "text": "", "tool_calls": calls}


app = restate.app([session, tool_log])
