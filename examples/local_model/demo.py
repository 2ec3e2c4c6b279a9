"""A turn with a tool call by a real model on this machine: `make demo-local-model`.

The server of the model is a child process; the session talks to it with `OpenAIModelClient`, as to any server
that speaks Chat Completions. A small model errs: it may write a call that the server cannot read, which ends
the answer in an error, and the `RunModel` Step asks again. Exit status 0 means that a tool ran, its result
went back to the model, and the turn was completed with an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from dex_agents import (
    AgentSessionClient,
    AgentSnapshot,
    AgentWorker,
    ModelStarted,
    TextDelta,
    ToolCallCompleted,
    ToolCallRequested,
    ToolEffect,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
)
from dex_agents.builtin_loop import AgentDefinition, create_builtin_agent_session_flow, function_tool
from dex_agents.builtin_loop.model_clients import OpenAIModelClient
from dex_agents.engine import LocalEngine
from examples.child_process import ChildProcess
from examples.local_model.server import MODEL_NAME
from examples.local_model.weights import WeightsError, require_weights
from examples.program import run_program
from examples.terminal import Terminal

__all__ = ["main"]

_SESSION: Final = "local-model"
_QUESTION: Final = "Where is my order A-1042?"
_TURN_SECONDS: Final = 240.0
_ORDERS: Final = {
    "A-1042": "shipped on Monday with Northmail, arrives on Thursday",
    "B-2001": "waiting for stock",
}


@function_tool(effect=ToolEffect.READ)
async def lookup_order(order_id: str) -> str:
    """Look up the state of an order by its number, such as A-1042."""
    return _ORDERS.get(order_id.strip(), f"there is no order {order_id}")


def build_model(address: str) -> OpenAIModelClient:
    """Return the client of the local server.

    Args:
        address: Where it listens.
    """
    return OpenAIModelClient(
        MODEL_NAME,
        api="chat_completions",
        base_url=f"{address}/v1",
        provider="local-llama",
        max_output_tokens=256,
        # Not 0: an answer that the server could not read would be the same in the next attempt.
        request_fields={"temperature": 0.2},
        timeout=timedelta(seconds=120),
    )


async def take_turn(address: str, question: str, terminal: Terminal) -> AgentSnapshot:
    """Ask one question in a new session, show the turn as it goes, and return what the session holds then.

    Args:
        address: Where the server of the model listens.
        question: What to ask.
        terminal: Where to show it.
    """
    async with build_model(address) as model:
        agent = AgentDefinition(
            name="orders",
            instructions="You answer questions about orders. Look an order up before you answer.",
            model=model,
            tools=[lookup_order],
            max_model_calls_per_turn=4,
        )
        flow = create_builtin_agent_session_flow(agent, "LocalModelDemo")
        with tempfile.TemporaryDirectory(prefix="local-model-") as folder:
            async with (
                LocalEngine(Path(folder) / "sessions.db") as engine,
                AgentWorker(flow, server_address=engine.server_address),
                AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
            ):
                terminal.line(f"you> {question}", "user")
                await client.start_session(_SESSION, first_message=question)
                async with asyncio.timeout(_TURN_SECONDS):
                    await _show_turn(client, terminal)
                return await client.get_agent_snapshot(_SESSION)


async def _show_turn(client: AgentSessionClient, terminal: Terminal) -> None:
    async for event in client.events(_SESSION):
        match event:
            case ModelStarted() if event.attempt > 1:
                terminal.line(f"(the answer could not be read; attempt {event.attempt})", "quiet")
            case TextDelta():
                terminal.piece(event.text, "agent")
            case ToolCallRequested():
                terminal.line(f"tool call: {event.tool_call.tool_name}({event.tool_call.arguments})", "tool")
            case ToolCallCompleted():
                call = event.tool_call
                terminal.line(f"result:    {call.status}: {call.output or call.error}", "tool")
            case TurnCompletedEvent() | TurnFailed() | TurnCancelled():
                terminal.end_line()
                return
            case _:
                pass


async def _run(weights: Path, server_python: str, question: str) -> int:
    terminal = Terminal()
    begun = time.monotonic()
    async with ChildProcess.running(
        "the model server",
        "examples.local_model.server",
        *("--weights", str(weights)),
        python=server_python,
    ) as server:
        loaded = time.monotonic()
        terminal.line(
            f"model server: process {server.pid} at {server.ready['address']}, {loaded - begun:.1f} s",
            "quiet",
        )
        snapshot = await take_turn(server.ready["address"], question, terminal)
    return _conclude(snapshot, terminal, time.monotonic() - loaded)


def _conclude(snapshot: AgentSnapshot, terminal: Terminal, seconds: float) -> int:
    succeeded = [call for call in snapshot.tool_calls if call.status == "succeeded"]
    last = snapshot.messages[-1]
    answered = last.role == "assistant" and bool((last.text or "").strip())
    went_well = snapshot.last_turn_outcome == "completed" and bool(succeeded) and answered
    if snapshot.last_turn_error:
        terminal.line(snapshot.last_turn_error, "bad")
    usage = snapshot.usage
    terminal.line(
        f"local model: turn {snapshot.last_turn_outcome}, tool calls {len(snapshot.tool_calls)}, "
        f"succeeded {len(succeeded)}, model calls {usage.model_calls}, "
        f"tokens {usage.input_tokens} + {usage.output_tokens}, {seconds:.1f} s",
        "good" if went_well else "bad",
    )
    return 0 if went_well else 1


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.local_model.demo")
    parser.add_argument("--weights", type=Path, required=True, help="the joined weights")
    parser.add_argument("--server-python", required=True, help="the interpreter that has xllamacpp")
    parser.add_argument("--question", default=_QUESTION)
    options = parser.parse_args(arguments)
    try:
        require_weights(options.weights)
    except WeightsError as error:
        print(f"local model: {error}", file=sys.stderr)
        return 1
    return run_program(_run(options.weights, options.server_python, options.question))


if __name__ == "__main__":
    sys.exit(main())
