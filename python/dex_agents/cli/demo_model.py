"""The model of the demo: plain code that takes orders, so that everything can be tried without a key."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from dex_agents.builtin_loop import (
    ModelRequest,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
)

__all__ = ["build_demo_model"]

_HELP: Final = """\
I am the **demo model**: plain code, no network and no key. One order a line:

| Order | What it shows |
| --- | --- |
| `list [FOLDER]` | a tool that only reads |
| `read FILE` | the same, with a file |
| `search TEXT` | lines that contain a text |
| `write FILE TEXT` | a write that you approve first, edited if you like |
| `run COMMAND` | a command that you approve first |
| `ask` | questions for you |
| an image | that it was shown: its type and its size |

A model that can think: `dex-agents chat --model openai/NAME` or `anthropic/NAME`.
"""

_QUESTIONS: Final[list[dict[str, Any]]] = [
    {
        "id": "colour",
        "question": "Which colour?",
        "options": [
            {"label": "red", "description": "as a tomato"},
            {"label": "blue", "description": "as the sky"},
        ],
    },
    {"id": "name", "question": "What shall it be called?"},
]
_SHOWN_CHARACTERS: Final = 1_500


def build_demo_model() -> ScriptedModelClient:
    """Return the demo model; it streams at a pace that can be followed."""

    async def pause(_delta: str) -> None:
        await asyncio.sleep(0.004)

    return ScriptedModelClient(_reply, provider="demo", api="demo", before_delta=pause)


def _reply(request: ModelRequest) -> ScriptedModelReply:
    results = ScriptedModelClient.tool_results(request)
    if results:
        return ScriptedModelReply(
            text="\n\n".join(_describe_result(one.tool_name, one.output) for one in results)
        )
    texts = ScriptedModelClient.user_texts(request)
    offered = {tool.name for tool in request.tools}
    calls = [
        call
        for line in (texts[-1] if texts else "").splitlines()
        if (call := _read_order(line.strip())) is not None and call.tool_name in offered
    ]
    if not calls:
        seen = _describe_images(request)
        return ScriptedModelReply(text=seen or _HELP)
    return ScriptedModelReply(text="Let me do that.", tool_calls=tuple(calls))


def _describe_images(request: ModelRequest) -> str:
    asked = [item for item in request.items if isinstance(item, ModelUserTextItem)]
    images = asked[-1].images if asked else ()
    return "\n".join(f"- I see {image.mime_type}, {image.size_bytes} bytes" for image in images)


def _read_order(line: str) -> ScriptedToolCall | None:
    order, _, rest = line.partition(" ")
    rest = rest.strip()
    match order.lower():
        case "list":
            return ScriptedToolCall("list_files", {"path": rest or "."})
        case "read" if rest:
            return ScriptedToolCall("read_file", {"path": rest})
        case "search" if rest:
            return ScriptedToolCall("search_files", {"text": rest})
        case "write" if rest:
            path, _, text = rest.partition(" ")
            return ScriptedToolCall("write_file", {"path": path, "text": f"{text}\n"})
        case "run" if rest:
            return ScriptedToolCall("run_command", {"command": rest})
        case "ask" if not rest:
            return ScriptedToolCall("ask_user", {"questions": _QUESTIONS})
        case _:
            return None


def _describe_result(tool_name: str, output: str) -> str:
    shown = output if len(output) <= _SHOWN_CHARACTERS else f"{output[:_SHOWN_CHARACTERS]}\n[…]"
    fence = "`" * 3
    while fence in shown:
        fence += "`"
    return f"**{tool_name}** returned:\n\n{fence}text\n{shown}\n{fence}"
