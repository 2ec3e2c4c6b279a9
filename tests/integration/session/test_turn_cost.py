"""What one turn costs in Worker calls and in calls of the client: the first numbers to design for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from dex import AsyncClient, ClientOptions, StepList, WorkerTarget

from dex_agents import AgentSessionClient, AgentSessionFlow, AgentWorker, build_session_registry
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ScriptedModelClient,
    function_tool,
)
from dex_agents.engine import LocalEngine
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.wire.step_inputs import SessionStepInput
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, obedient


class _CountingFlow(AgentSessionFlow):
    """Counts every call of a Step method on the Worker."""

    def __init__(self, *args: Any, counts: Counter[str]) -> None:
        super().__init__(*args)
        self._counts = counts

    def get_steps(self) -> StepList[SessionStepInput]:
        steps = super().get_steps()
        for definition in steps:
            step = definition.step
            for method in ("execute", "wait_for"):
                if method in type(step).__dict__ or method == "execute":
                    counted = self._counted(f"{type(step).__name__}.{method}", getattr(step, method))
                    setattr(step, method, counted)
        return steps

    def _counted(self, name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        if name.endswith(".execute"):

            @wraps(handler)
            async def counted_execute(context: Any, value: Any) -> Any:
                self._counts[name] += 1
                return await handler(context, value)

            return counted_execute

        @wraps(handler)
        def counted_wait(context: Any, value: Any) -> Any:
            self._counts[name] += 1
            return handler(context, value)

        return counted_wait


class _CountingClient(AsyncClient):
    """Counts the calls that a session client makes."""

    counts: Counter[str]

    async def invoke_rpc(self, rpc_method: Any, *args: Any, **options: Any) -> Any:
        self.counts[f"rpc {rpc_method.__name__}"] += 1
        return await super().invoke_rpc(rpc_method, *args, **options)

    async def wait_for_attribute_match(self, *args: Any, **options: Any) -> Any:
        self.counts["long poll"] += 1
        return await super().wait_for_attribute_match(*args, **options)


@pytest.mark.requirement("turn-cost")
async def test_a_turn_with_two_tools_costs_eight_worker_calls_and_one_command(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def look(n: int) -> str:
        """Look."""
        return str(n)

    steps, calls = Counter[str](), Counter[str]()
    definition = AgentDefinition(name="desk", model=ScriptedModelClient(obedient), tools=[look])
    flow = _CountingFlow(BuiltinLoopAgentRunner(definition), "Desk", counts=steps)
    async with LocalEngine(tmp_path / "a.db") as engine:
        address = engine.server_address
        cache = FetchingBlobCache(address)
        options = ClientOptions(server_address=address, worker_target=WorkerTarget(pull=True))
        sdk_client = _CountingClient(build_session_registry(flow), cache, options)
        sdk_client.counts = calls
        try:
            async with AgentWorker(flow, server_address=address):
                client = AgentSessionClient(sdk_client, flow)
                await client.start_session("s")
                await client.wait_for_idle("s")
                await ask(client, "s", "warm up")
                steps.clear()
                calls.clear()
                await ask(client, "s", asking(("look", {"n": 1}), ("look", {"n": 2})))
        finally:
            await sdk_client.close()
            cache.close()
    assert steps == {
        "RunModel.execute": 2,
        "CallTool.execute": 2,
        "ResumeTurn.wait_for": 1,
        "ResumeTurn.execute": 1,
    }
    assert calls == {"rpc begin_turn": 1, "rpc get_progress": 1, "long poll": 1}
