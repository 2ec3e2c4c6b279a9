"""LangGraph with its SQLite checkpointer, as a `TurnPeer`.

`--durability async` is what it ships: a checkpoint is written while the next node runs already.
`--durability sync` waits for it. `--each-call-a-task` sends every tool call to a task of its own, as its
prebuilt agent does, so that a crash does not repeat a call that had finished; without it one task runs both.
"""

# LangGraph is installed for `make bench-turns` alone.
# pyright: reportMissingImports=false

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiosqlite
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send

from benches.end_to_end.turns_driver import (
    STORE_NAME,
    TurnPeer,
    add_plan_arguments,
    read_cpu_seconds,
    run_plan,
)
from benches.workloads.turns import ANSWER, TOOLS, StoredMessage, ToolUse, expect_messages

_Durability = Literal["sync", "async"]
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}


class LangGraphPeer:
    """One compiled graph on one checkpointer; a thread of LangGraph is a session."""

    def __init__(
        self, checkpointer: AsyncSqliteSaver, durability: _Durability, *, each_call_a_task: bool
    ) -> None:
        """Compile the graph."""
        self._tool_runs = 0
        self._durability: _Durability = durability
        graph = StateGraph(MessagesState)
        graph.add_node("model", _call_model)
        graph.add_node("tools", ToolNode([self._build_tool(tool) for tool in TOOLS]))
        graph.add_edge(START, "model")
        if each_call_a_task:
            graph.add_conditional_edges("model", _send_each_call, ["tools", "__end__"])
        else:
            graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        self._app: CompiledStateGraph[Any, Any, Any, Any] = graph.compile(checkpointer=checkpointer)

    async def count_tool_runs(self) -> int:
        """The tools run in this process."""
        return self._tool_runs

    async def start_session(self, session_id: str) -> None:
        """A thread begins with its first message."""

    async def run_turn(self, session_id: str, question: str) -> None:
        """Invoke the graph."""
        state = await self._app.ainvoke(
            {"messages": [HumanMessage(question)]}, _config(session_id), durability=self._durability
        )
        answer: AnyMessage = state["messages"][-1]
        if answer.content != ANSWER:
            raise RuntimeError(f"the answer is {answer.content!r}")

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read the thread's latest checkpoint."""
        state = await self._app.aget_state(_config(session_id))
        messages: list[AnyMessage] = state.values["messages"]
        return [StoredMessage(_ROLES[message.type], str(message.content)) for message in messages]

    async def fill_session(self, session_id: str, turns: int) -> None:
        """Write the state of so many turns as one checkpoint; real turns would each copy it several times."""
        messages: list[AnyMessage] = []
        for stored in expect_messages(turns):
            if stored.role == "user":
                messages.append(HumanMessage(stored.text))
            elif stored.role == "tool":
                use = next(tool for tool in TOOLS if tool.output == stored.text)
                asked = [message for message in messages if isinstance(message, AIMessage)][-1]
                (call_id,) = (call["id"] for call in asked.tool_calls if call["name"] == use.name)
                messages.append(ToolMessage(stored.text, name=use.name, tool_call_id=call_id or ""))
            else:
                messages.append(AIMessage(stored.text) if stored.text else _ask_for_tools(len(messages)))
        await self._app.aupdate_state(_config(session_id), {"messages": messages}, as_node="model")

    def read_cpu_seconds(self) -> float | None:
        """Everything runs in this process."""
        return read_cpu_seconds()

    def _build_tool(self, use: ToolUse) -> BaseTool:
        async def run(**_: str) -> str:
            self._tool_runs += 1
            return use.output

        schema = {
            "type": "object",
            "properties": {use.argument: {"type": "string"}},
            "required": [use.argument],
        }
        return StructuredTool(name=use.name, description=use.name, args_schema=schema, coroutine=run)


def _config(session_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": session_id}}


def _ask_for_tools(stored_messages: int) -> AIMessage:
    calls = [
        {"name": tool.name, "args": {tool.argument: tool.value}, "id": f"call_{stored_messages}_{place}"}
        for place, tool in enumerate(TOOLS)
    ]
    return AIMessage("", tool_calls=calls)


async def _call_model(state: MessagesState) -> dict[str, list[AIMessage]]:
    messages = state["messages"]
    if messages[-1].type == "human":
        return {"messages": [_ask_for_tools(len(messages))]}
    return {"messages": [AIMessage(ANSWER)]}


def _send_each_call(state: MessagesState) -> list[Send] | str:
    last = state["messages"][-1]
    if isinstance(last, AIMessage) and last.tool_calls:
        return [Send("tools", [call]) for call in last.tool_calls]
    return "__end__"


def main() -> None:
    """Run one plan; see `benches.end_to_end.turns_driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--durability", choices=("sync", "async"), required=True)
    parser.add_argument("--synchronous", choices=("shipped", "full"), required=True)
    parser.add_argument("--each-call-a-task", action="store_true")
    add_plan_arguments(parser)
    arguments = parser.parse_args()

    @asynccontextmanager
    async def open_peer(folder: Path) -> AsyncIterator[TurnPeer]:
        async with AsyncSqliteSaver.from_conn_string(str(folder / STORE_NAME)) as checkpointer:
            connection: aiosqlite.Connection = checkpointer.conn
            if arguments.synchronous == "full":
                await connection.execute("PRAGMA synchronous=FULL")
            await checkpointer.setup()
            yield LangGraphPeer(
                checkpointer, arguments.durability, each_call_a_task=arguments.each_call_a_task
            )

    run_plan(open_peer, arguments)


if __name__ == "__main__":
    main()
