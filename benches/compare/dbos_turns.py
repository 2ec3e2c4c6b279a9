"""DBOS on SQLite, as a `TurnPeer`: a turn is a workflow, each model call and each tool call is a step of it.

DBOS keeps workflows and no conversation, so a turn here knows its own messages only, which is less work than
the other libraries do. What a session said is read back from the recorded inputs and steps of its workflows.
"""

# DBOS is installed for `make bench-turns` alone.
# pyright: reportMissingImports=false

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from dbos import DBOS, SetWorkflowID

from benches.end_to_end.turns_driver import (
    STORE_NAME,
    TurnPeer,
    add_plan_arguments,
    read_cpu_seconds,
    run_plan,
)
from benches.workloads.turns import ANSWER, TOOLS, StoredMessage, ToolUse

_MODEL_STEP: Final = "call_model"

_Tool = Callable[[str], Coroutine[Any, Any, str]]


class DbosPeer:
    """The workflow of one turn and its steps, registered with the DBOS of this process."""

    def __init__(self) -> None:
        """Register them; DBOS must exist and not be launched yet."""
        self._tool_runs = 0
        self._turns_begun: Counter[str] = Counter()
        tools = {use.name: self._register_tool(use) for use in TOOLS}

        @DBOS.step(name=_MODEL_STEP)
        async def call_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            if messages[-1]["role"] == "user":
                calls = [{"name": use.name, "arguments": {use.argument: use.value}} for use in TOOLS]
                return {"role": "assistant", "text": "", "tool_calls": calls}
            return {"role": "assistant", "text": ANSWER}

        @DBOS.workflow(name="run_turn")
        async def run_turn(question: str) -> str:
            messages: list[dict[str, Any]] = [{"role": "user", "text": question}]
            asked = await call_model(messages)
            runs = [tools[call["name"]](*call["arguments"].values()) for call in asked["tool_calls"]]
            outputs = await asyncio.gather(*runs)
            messages += [asked, *({"role": "tool", "text": output} for output in outputs)]
            answer = await call_model(messages)
            return answer["text"]

        self._run_turn = run_turn

    async def count_tool_runs(self) -> int:
        """The tools run in this process."""
        return self._tool_runs

    async def start_session(self, session_id: str) -> None:
        """A session is no more than the beginning of its workflows' names."""

    async def run_turn(self, session_id: str, question: str) -> None:
        """Run its workflow, which is recorded when it returns."""
        number = self._turns_begun[session_id]
        self._turns_begun[session_id] += 1
        with SetWorkflowID(f"{session_id}/{number}"):
            answer = await self._run_turn(question)
        if answer != ANSWER:
            raise RuntimeError(f"the answer is {answer!r}")

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read the inputs and the steps of the session's workflows."""
        turns = await DBOS.list_workflows_async(workflow_id_prefix=f"{session_id}/")
        messages: list[StoredMessage] = []
        for turn in sorted(turns, key=lambda one: int(one.workflow_id.rpartition("/")[2])):
            if turn.status != "SUCCESS" or turn.input is None:
                raise RuntimeError(f"workflow {turn.workflow_id} is stored as {turn.status}")
            messages.append(StoredMessage("user", turn.input["args"][0]))
            for step in await DBOS.list_workflow_steps_async(turn.workflow_id):
                output: Any = step["output"]
                if step["function_name"] == _MODEL_STEP:
                    messages.append(StoredMessage("assistant", output["text"]))
                else:
                    messages.append(StoredMessage("tool", output))
        return messages

    def read_cpu_seconds(self) -> float | None:
        """Everything runs in this process."""
        return read_cpu_seconds()

    def _register_tool(self, use: ToolUse) -> _Tool:
        @DBOS.step(name=use.name)
        async def run(_value: str) -> str:
            self._tool_runs += 1
            return use.output

        return run


@asynccontextmanager
async def open_peer(folder: Path) -> AsyncIterator[TurnPeer]:
    """Launch DBOS on the store in a folder; this process has one DBOS at a time."""
    DBOS(
        config={
            "name": "bench-turns",
            "system_database_url": f"sqlite:///{folder / STORE_NAME}",
            "log_level": "ERROR",
        }
    )
    try:
        peer = DbosPeer()
        DBOS.launch()
        yield peer
    finally:
        DBOS.destroy(destroy_registry=True)


def main() -> None:
    """Run one plan; see `benches.end_to_end.turns_driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_plan_arguments(parser)
    run_plan(open_peer, parser.parse_args())


if __name__ == "__main__":
    main()
