"""Listing several sources together, and bringing calls back to them."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dex_agents import texts
from dex_agents.errors import (
    InvalidInputError,
    RunnerContractError,
    ToolExecutionError,
    ToolOutcomeUnknownError,
    ToolSourceUnavailableError,
)
from dex_agents.runner.outcomes import DeferredToolCall, ToolExecutionResult, ToolReconciliation
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.tool_sources.contract import SourceTool
from dex_agents.tool_sources.router import ToolSourceRouter
from dex_agents.wire.tool_calls import ResolvedToolPolicy, ToolEffect, ToolPolicy
from tests.unit.builtin_loop.turns import RecordedEvents, build_execution
from tests.unit.tool_sources.sources import (
    DecidingSource,
    ListedSource,
    PollingSource,
    build_tool,
    fail_to_list,
)

SHORT = timedelta(milliseconds=20)
CALL = DeferredToolCall(
    tool_call_id="call_1",
    model_call_id="m_1",
    tool_name="look",
    arguments="{}",
    policy=ResolvedToolPolicy(effect=ToolEffect.READ, requires_approval=False),
)


def build_turn(**policies: ToolPolicy) -> AgentTurnContext:
    return AgentTurnContext(
        flow_id="s",
        turn_id="turn-1",
        attempt=1,
        messages=(),
        framework_run_state=None,
        tool_calls=(),
        events=RecordedEvents(),
        tool_policies=policies,
        default_tool_effect=ToolEffect.UNCLASSIFIED,
        used_tool_call_ids=(),
    )


async def defer(
    source: ListedSource, name: str = "look", turn: AgentTurnContext | None = None
) -> DeferredToolCall:
    router = ToolSourceRouter((source,))
    listing = await router.list_tools()
    return router.build_deferred_call(turn or build_turn(), listing.tools[name], CALL)


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ((ListedSource("a"), ListedSource("a")), "two sources have the name 'a'"),
        ((ListedSource("a:b"),), "must match"),
        ((ListedSource(""),), "must match"),
        ((object(),), "the name of object must match"),
        ((type("NoMethods", (), {"name": "a"})(),), "has no method list_tools"),
    ],
)
def test_sources_that_could_not_be_told_apart_or_used_are_refused(sources: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        ToolSourceRouter(sources)
    assert caught.value.field == "sources"


def test_a_listing_needs_time() -> None:
    with pytest.raises(InvalidInputError, match="listing_timeout"):
        ToolSourceRouter((), listing_timeout=timedelta())


async def test_a_router_without_sources_lists_nothing() -> None:
    listing = await ToolSourceRouter(()).list_tools()
    assert (listing.tools, listing.warnings, listing.unreachable) == ({}, (), {})


async def test_sources_are_asked_at_once_and_listed_in_their_order() -> None:
    second_was_asked = asyncio.Event()

    async def wait_for_second() -> Sequence[SourceTool]:
        await second_was_asked.wait()
        return [build_tool("a")]

    async def tell_first() -> Sequence[SourceTool]:
        second_was_asked.set()
        return [build_tool("b")]

    router = ToolSourceRouter((ListedSource("one", (), wait_for_second), ListedSource("two", (), tell_first)))
    assert list((await router.list_tools()).tools) == ["a", "b"]


@pytest.mark.requirement("source-down")
async def test_a_source_that_fails_takes_away_its_own_tools_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mail, files = ListedSource("mail", [build_tool("send")]), ListedSource("files", [build_tool("read")])
    router = ToolSourceRouter((mail, files))
    assert list((await router.list_tools()).tools) == ["send", "read"]
    mail.lister = fail_to_list(ConnectionError("refused"))
    with caplog.at_level(logging.WARNING):
        listing = await router.list_tools()
        await router.list_tools()
    assert list(listing.tools) == ["read"]
    assert list(listing.unreachable) == ["send"]
    assert listing.warnings == ("the tools of source 'mail' are left out: ConnectionError: refused",)
    assert caplog.messages == list(listing.warnings)
    mail.lister = None
    back = await router.list_tools()
    assert list(back.tools) == ["send", "read"]
    assert (back.warnings, back.unreachable) == ((), {})


@pytest.mark.requirement("source-down")
async def test_a_source_that_hangs_is_not_waited_for() -> None:
    cancelled = asyncio.Event()

    async def hang() -> Sequence[SourceTool]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    router = ToolSourceRouter(
        (ListedSource("slow", (), hang), ListedSource("files", [build_tool("read")])), listing_timeout=SHORT
    )
    listing = await router.list_tools()
    assert list(listing.tools) == ["read"]
    assert listing.warnings == (
        "the tools of source 'slow' are left out: they were not listed within 0.02 s",
    )
    await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.requirement("source-down")
async def test_a_source_that_ignores_its_cancellation_is_asked_again_when_its_listing_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release, asked = asyncio.Event(), 0

    async def stubborn() -> Sequence[SourceTool]:
        nonlocal asked
        asked += 1
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        if asked == 1:
            raise ConnectionError("too late for anybody to hear")
        return [build_tool("late")]

    router = ToolSourceRouter((ListedSource("stubborn", (), stubborn),), listing_timeout=SHORT)
    assert (await router.list_tools()).tools == {}
    second = await router.list_tools()
    assert second.warnings == (
        "the tools of source 'stubborn' are left out: an earlier listing has not ended yet",
    )
    assert asked == 1
    release.set()
    while "late" not in (await router.list_tools()).tools:
        await asyncio.sleep(0)
    assert asked == 2
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_source_that_is_cancelled_from_within_counts_as_down() -> None:
    router = ToolSourceRouter((ListedSource("odd", (), fail_to_list(asyncio.CancelledError())),))
    listing = await router.list_tools()
    assert listing.warnings == ("the tools of source 'odd' are left out: the listing was cancelled",)


async def test_cancelling_the_step_cancels_the_listings() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> Sequence[SourceTool]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    listing = asyncio.create_task(ToolSourceRouter((ListedSource("slow", (), hang),)).list_tools())
    await asked.wait()
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_a_listing_that_is_no_sequence_counts_as_a_failure() -> None:
    nothing: Any = None
    listing = await ToolSourceRouter((ListedSource("odd", nothing),)).list_tools()
    assert listing.warnings[0].startswith("the tools of source 'odd' are left out: TypeError")


@pytest.mark.requirement("source-policy")
async def test_effect_approval_and_order_come_from_the_listed_tool() -> None:
    write = build_tool(
        "look",
        effect=ToolEffect.IDEMPOTENT_WRITE,
        requires_approval=True,
        ordered=True,
        reference="files/look",
    )
    deferred = await defer(ListedSource("s", [write]))
    assert deferred == msgspec.structs.replace(
        CALL,
        policy=ResolvedToolPolicy(effect=ToolEffect.IDEMPOTENT_WRITE, requires_approval=True),
        ordered=True,
        tool_source_reference="s:files/look",
    )


@pytest.mark.requirement("source-policy")
async def test_a_policy_of_the_session_wins_and_a_read_is_never_ordered() -> None:
    write = build_tool("look", effect=ToolEffect.NON_IDEMPOTENT_WRITE, ordered=True)
    policy = ToolPolicy(effect=ToolEffect.READ)
    deferred = await defer(ListedSource("s", [write]), turn=build_turn(look=policy))
    assert deferred.policy == ResolvedToolPolicy(effect=ToolEffect.READ, requires_approval=False)
    assert not deferred.ordered
    assert deferred.tool_source_reference == "s"


async def test_a_tool_without_an_effect_has_the_sessions_default() -> None:
    deferred = await defer(ListedSource("s", [build_tool("look", effect=None)]))
    assert deferred.policy == ResolvedToolPolicy(effect=ToolEffect.UNCLASSIFIED, requires_approval=True)


@pytest.mark.requirement("source-policy")
async def test_a_source_may_decide_by_rules_of_its_own() -> None:
    cautious = ResolvedToolPolicy(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)

    def decide(call: DeferredToolCall) -> DeferredToolCall:
        return msgspec.structs.replace(
            call,
            policy=cautious,
            ordered=True,
            tool_call_id="other",
            arguments="other",
            tool_source_reference="other",
            reconcilable=True,
        )

    deferred = await defer(DecidingSource("s", [build_tool("look")], decide=decide))
    assert deferred == msgspec.structs.replace(CALL, policy=cautious, ordered=True, tool_source_reference="s")


async def test_a_source_cannot_order_a_read() -> None:
    def decide(call: DeferredToolCall) -> DeferredToolCall:
        return msgspec.structs.replace(call, ordered=True)

    assert not (await defer(DecidingSource("s", [build_tool("look")], decide=decide))).ordered


@pytest.mark.parametrize("decided", [None, 1 / 3, ZeroDivisionError()])
async def test_a_call_that_its_source_cannot_decide_about_is_refused(
    decided: object, caplog: pytest.LogCaptureFixture
) -> None:
    def decide(call: DeferredToolCall) -> Any:
        if isinstance(decided, Exception):
            raise decided
        return decided

    deferred = await defer(DecidingSource("s", [build_tool("look")], decide=decide))
    assert deferred.refusal == texts.tool_cannot_be_called_now("look")
    assert "source 's' could not defer a call of 'look'" in caplog.text


async def test_only_a_source_that_can_look_up_has_reconcilable_calls() -> None:
    tool = build_tool("look", reconcilable=True)
    assert not (await defer(ListedSource("s", [tool]))).reconcilable
    assert (await defer(PollingSource("s", [tool]))).reconcilable


@pytest.mark.requirement("source-routing")
async def test_a_call_goes_to_the_source_that_offered_it_whatever_is_listed_now() -> None:
    first, second = ListedSource("one", [build_tool("look")]), ListedSource("two", [build_tool("look")])
    router = ToolSourceRouter((first, second))
    for reference, output in (("one", "one: None"), ("two:a:b", "two: a:b"), ("two:", "two: ")):
        execution = build_execution("look", tool_source_reference=reference)
        assert await router.execute_deferred_tool_call(execution) == ToolExecutionResult(output)
    first.tools = ()
    with pytest.raises(ToolExecutionError, match="one has no look"):
        await router.execute_deferred_tool_call(build_execution("look", tool_source_reference="one"))


@pytest.mark.case("BR-053")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"effect": ToolEffect.READ, "attempt": 3}, ToolExecutionError),
        ({"effect": ToolEffect.NON_IDEMPOTENT_WRITE}, ToolExecutionError),
        ({"effect": ToolEffect.IDEMPOTENT_WRITE, "continuation": ""}, ToolExecutionError),
        ({"effect": ToolEffect.IDEMPOTENT_WRITE, "attempt": 2}, ToolOutcomeUnknownError),
        ({"effect": ToolEffect.UNCLASSIFIED, "continuation": "reserved"}, ToolOutcomeUnknownError),
    ],
)
async def test_a_call_whose_source_a_deploy_took_away_says_so_and_never_more_than_is_known(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    execution = build_execution("look", tool_source_reference="gone:x", **changes)
    with pytest.raises(error) as caught:
        await ToolSourceRouter(()).execute_deferred_tool_call(execution)
    assert str(caught.value) == texts.tool_not_available("look")


async def test_tasks_and_look_ups_go_to_the_source_that_ran_the_call() -> None:
    source = PollingSource("jobs")
    router = ToolSourceRouter((ListedSource("other"), source))
    execution = build_execution("run", tool_source_reference="jobs:r", task_reference="t1")
    assert await router.poll_tool_task(execution) == ToolExecutionResult("t1 r")
    await router.cancel_tool_task(execution)
    assert source.cancelled == ["t1"]
    assert await router.reconcile_tool_call(execution) == ToolReconciliation("succeeded", "r")


async def test_a_source_that_looks_nothing_up_any_more_leaves_the_outcome_unknown() -> None:
    router = ToolSourceRouter((ListedSource("s"),))
    found = await router.reconcile_tool_call(build_execution("look", tool_source_reference="s"))
    assert found == ToolReconciliation("still_unknown")


@pytest.mark.parametrize("reference", ["gone", "plain", None])
async def test_a_task_without_its_source_is_left_for_another_worker(reference: str | None) -> None:
    router = ToolSourceRouter((ListedSource("plain"),))
    execution = build_execution("run", tool_source_reference=reference, task_reference="t1")
    for serve in (router.poll_tool_task, router.cancel_tool_task):
        with pytest.raises(ToolSourceUnavailableError) as caught:
            await serve(execution)
        assert (caught.value.tool_source_reference, caught.value.tool_name) == (reference or "", "run")


async def test_a_task_of_a_source_that_cannot_poll_is_a_mistake_of_the_source() -> None:
    class Starting(ListedSource):
        execute_deferred_tool_call = PollingSource.execute_deferred_tool_call

    router = ToolSourceRouter((Starting("s"),))
    with pytest.raises(RunnerContractError, match="source 's' started a task"):
        await router.execute_deferred_tool_call(build_execution("run", tool_source_reference="s"))


async def test_the_latest_listing_is_known_for_checks_of_changed_arguments() -> None:
    source = ListedSource("s", [build_tool("look")])
    router = ToolSourceRouter((source,))
    assert router.find_tool("look", "s") is None
    await router.list_tools()
    found = router.find_tool("look", "s:x")
    assert found is not None
    assert found.tool is source.tools[0]
    assert router.find_tool("look", "gone") is None
