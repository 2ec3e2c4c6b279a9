"""What any tool source must do. A test module of a source imports `ToolSourceSuite` and gives it the fixtures
`source` and `call`, a call of a tool that the source lists, as `(tool name, arguments)`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dex_agents.errors import ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.runner.contract import PollsToolTasks, ReconcilesToolCalls
from dex_agents.runner.outcomes import (
    ToolExecutionResult,
    ToolInputRequested,
    ToolReconciliation,
    ToolTaskStarted,
)
from dex_agents.runner.turn_context import DeferredToolExecution
from dex_agents.tool_sources.contract import SourceTool, ToolSource
from dex_agents.tool_sources.router import ToolSourceRouter
from dex_agents.wire.tool_calls import ToolEffect
from tests.unit.builtin_loop.turns import build_execution

Call = tuple[str, str]


async def find_tool(source: ToolSource, name: str) -> SourceTool:
    return next(tool for tool in await source.list_tools() if tool.name == name)


async def build_call(source: ToolSource, call: Call) -> DeferredToolExecution:
    """A call as the session would run it."""
    name, arguments = call
    tool = await find_tool(source, name)
    return build_execution(
        name,
        arguments,
        effect=tool.effect or ToolEffect.UNCLASSIFIED,
        tool_source_reference=tool.reference,
    )


class ToolSourceSuite:
    async def test_every_listed_tool_can_be_offered(self, source: ToolSource) -> None:
        listing = await ToolSourceRouter((source,)).list_tools()
        assert listing.warnings == ()
        assert list(listing.tools) == [tool.name for tool in await source.list_tools()] != []

    async def test_listings_are_the_same_and_may_overlap(self, source: ToolSource) -> None:
        first, second = await asyncio.gather(source.list_tools(), source.list_tools())
        assert tuple(first) == tuple(second) == tuple(await source.list_tools())

    async def test_what_a_tool_declares_is_kept_by_the_source(self, source: ToolSource) -> None:
        for tool in await source.list_tools():
            assert isinstance(source, ReconcilesToolCalls) or not tool.reconcilable

    async def test_a_listed_tool_runs(self, source: ToolSource, call: Call) -> None:
        outcome = await source.execute_deferred_tool_call(await build_call(source, call))
        assert isinstance(outcome, ToolExecutionResult | ToolInputRequested | ToolTaskStarted)
        if isinstance(outcome, ToolTaskStarted):
            assert isinstance(source, PollsToolTasks)
            assert outcome.task_reference
            assert outcome.poll_after_seconds > 0

    async def test_a_repeat_with_the_same_key_leads_to_the_same_kind_of_outcome(
        self, source: ToolSource, call: Call
    ) -> None:
        execution = await build_call(source, call)
        if not execution.effect.may_run_again:
            pytest.skip("the call is attempted once")
        first = await source.execute_deferred_tool_call(execution)
        second = await source.execute_deferred_tool_call(replace(execution, attempt=2))
        assert type(first) is type(second)

    async def test_a_tool_that_is_gone_fails_for_good_with_a_text(
        self, source: ToolSource, call: Call
    ) -> None:
        execution = replace(
            await build_call(source, call), tool_name="no_such_tool_", tool_source_reference="no_such_tool_"
        )
        with pytest.raises(ToolExecutionError) as caught:
            await source.execute_deferred_tool_call(execution)
        assert str(caught.value).strip()

    async def test_a_task_that_the_server_does_not_know_ends_by_the_effect_of_its_call(
        self, source: ToolSource, call: Call
    ) -> None:
        if not isinstance(source, PollsToolTasks):
            pytest.skip("the source starts no tasks")
        execution = replace(await build_call(source, call), task_reference="no-such-task")
        with pytest.raises(ToolExecutionError):
            await source.poll_tool_task(replace(execution, effect=ToolEffect.READ))
        with pytest.raises(ToolOutcomeUnknownError):
            await source.poll_tool_task(replace(execution, effect=ToolEffect.NON_IDEMPOTENT_WRITE))

    async def test_a_task_may_be_cancelled_twice_and_one_that_is_not_there_too(
        self, source: ToolSource, call: Call
    ) -> None:
        if not isinstance(source, PollsToolTasks):
            pytest.skip("the source starts no tasks")
        execution = await build_call(source, call)
        started = await source.execute_deferred_tool_call(execution)
        if isinstance(started, ToolTaskStarted):
            running = replace(execution, task_reference=started.task_reference)
            await source.cancel_tool_task(running)
            await source.cancel_tool_task(running)
        await source.cancel_tool_task(replace(execution, task_reference="no-such-task"))

    async def test_a_call_that_was_never_sent_is_not_found_to_have_succeeded(
        self, source: ToolSource, call: Call
    ) -> None:
        if not isinstance(source, ReconcilesToolCalls):
            pytest.skip("the source looks nothing up")
        execution = replace(await build_call(source, call), idempotency_key="session-1/turn-1/never_sent")
        found = await source.reconcile_tool_call(execution)
        assert isinstance(found, ToolReconciliation)
        assert found.outcome != "succeeded"
