"""Tool calls through the client, on the real engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dex_agents import OUTCOME_UNKNOWN_TOOL_RESULT, ToolExecutionError, ToolOutcomeUnknownError
from dex_agents.builtin_loop import (
    ModelOutputItem,
    ModelRequest,
    ModelToolResultItem,
    ScriptedModelReply,
    ScriptedToolCall,
    ToolCallContext,
    function_tool,
)
from dex_agents.wire.tool_calls import ToolEffect, ToolPolicy
from tests.integration.session.desk import answers, ask, asking, build_flow, obedient, ordered_write, serve


@pytest.mark.requirement("calls-parallel")
async def test_the_calls_of_one_response_run_at_the_same_time(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    @function_tool(effect=ToolEffect.READ)
    async def meet(name: str) -> str:
        """Return only when the other call runs too."""
        await together.wait()
        return name

    async with serve(tmp_path / "a.db", build_flow([meet])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("meet", {"name": "a"}), ("meet", {"name": "b"})))
        assert await answers(client, "s") == ["a | b"]


@pytest.mark.case("BR-002")
async def test_only_the_call_that_fails_is_repeated(tmp_path: Path) -> None:
    runs: list[tuple[str, int]] = []

    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
    async def refund(context: ToolCallContext) -> str:
        """Pay back."""
        runs.append(("refund", context.attempt))
        return "paid"

    @function_tool(effect=ToolEffect.READ)
    async def notify(context: ToolCallContext) -> str:
        """Fail twice."""
        runs.append(("notify", context.attempt))
        if context.attempt < 3:
            raise ConnectionError("flaky")
        return "told"

    async with serve(tmp_path / "a.db", build_flow([refund, notify])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("refund", {}), ("notify", {})))
        assert await answers(client, "s") == ["paid | told"]
    assert sorted(runs) == [("notify", 1), ("notify", 2), ("notify", 3), ("refund", 1)]


@pytest.mark.requirement("idempotency-key")
@pytest.mark.case("BR-005")
async def test_every_attempt_of_a_call_has_the_same_key_and_other_calls_have_others(tmp_path: Path) -> None:
    keys: dict[int, list[str]] = {}

    @function_tool(effect=ToolEffect.IDEMPOTENT_WRITE)
    async def put(n: int, context: ToolCallContext) -> str:
        """Fail once."""
        keys.setdefault(n, []).append(context.idempotency_key)
        if context.attempt == 1:
            raise ConnectionError("flaky")
        return "put"

    async with serve(tmp_path / "a.db", build_flow([put])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("put", {"n": 1}), ("put", {"n": 2})))
        await ask(client, "s", asking(("put", {"n": 3})))
        calls = (await client.get_agent_snapshot("s")).tool_calls
    expected = [f"s/{call.turn_id}/{call.tool_call_id}" for call in calls]
    assert [keys[n] for n in (1, 2, 3)] == [[key, key] for key in expected]
    assert len(set(expected)) == 3


@pytest.mark.requirement("effect-retries")
@pytest.mark.parametrize(
    ("effect", "status", "attempts"),
    [
        (ToolEffect.READ, "failed", 3),
        (ToolEffect.IDEMPOTENT_WRITE, "failed", 3),
        (ToolEffect.NON_IDEMPOTENT_WRITE, "outcome_unknown", 1),
        (ToolEffect.UNCLASSIFIED, "outcome_unknown", 1),
    ],
)
async def test_an_unexpected_error_ends_as_the_effect_says(
    tmp_path: Path, effect: ToolEffect, status: str, attempts: int
) -> None:
    runs = 0

    @function_tool(effect=effect, requires_approval=False)
    async def broken() -> str:
        """Fail always."""
        nonlocal runs
        runs += 1
        raise ValueError("the wire broke")

    async with serve(tmp_path / "a.db", build_flow([broken])) as client:
        await client.start_session("s")
        progress = await ask(client, "s", asking(("broken", {})))
        (call,) = (await client.get_agent_snapshot("s")).tool_calls
        said = await answers(client, "s")
    assert (call.status, runs, progress.last_turn_outcome) == (status, attempts, "completed")
    assert "the wire broke" in (call.error or "")
    assert said[0] is not None
    assert (OUTCOME_UNKNOWN_TOOL_RESULT in said[0]) == (status == "outcome_unknown")


@pytest.mark.requirement("outcome-truth")
async def test_a_tool_may_say_that_it_failed_or_that_it_does_not_know(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def refuse() -> str:
        """Fail for a reason."""
        raise ToolExecutionError("no such order")

    @function_tool(effect=ToolEffect.READ)
    async def shrug() -> str:
        """Lose track."""
        raise ToolOutcomeUnknownError("the gateway timed out")

    async with serve(tmp_path / "a.db", build_flow([refuse, shrug])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("refuse", {}), ("shrug", {})))
        calls = (await client.get_agent_snapshot("s")).tool_calls
        said = await answers(client, "s")
    assert [(call.status, call.error, call.attempts) for call in calls] == [
        ("failed", "no such order", 1),
        ("outcome_unknown", "the gateway timed out", 1),
    ]
    assert said == [f"The tool call failed: no such order | {OUTCOME_UNKNOWN_TOOL_RESULT}"]


@pytest.mark.requirement("session-goes-on")
@pytest.mark.case("BR-022")
@pytest.mark.case("BR-054")
@pytest.mark.case("BR-059")
async def test_calls_that_can_never_run_are_answered_one_by_one_without_asking_anybody(
    tmp_path: Path,
) -> None:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError("must not run")

    async with serve(tmp_path / "a.db", build_flow([pay])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("get_dat", {}), ("pay", {"amount": "much"}), ("pay", '{"amount": 1')))
        snapshot = await client.get_agent_snapshot("s")
        said = await answers(client, "s")
    assert [(call.status, call.attempts) for call in snapshot.tool_calls] == [("failed", 0)] * 3
    assert said[0] is not None
    assert "available tools: pay" in said[0]
    assert said[0].count("invalid arguments: ") == 2


@pytest.mark.requirement("writes-ordered")
async def test_ordered_writes_run_one_after_the_other_in_the_models_order(tmp_path: Path) -> None:
    log: list[str] = []
    first_may_end = asyncio.Event()

    async def write(arguments: dict[str, str], _: ToolCallContext) -> str:
        log.append(f"begin {arguments['name']}")
        if arguments["name"] == "a":
            await first_may_end.wait()
        log.append(f"end {arguments['name']}")
        return arguments["name"]

    @function_tool(effect=ToolEffect.READ)
    async def look() -> str:
        """Run beside the writes."""
        first_may_end.set()
        return "seen"

    put = ordered_write(write)
    async with serve(tmp_path / "a.db", build_flow([put, look])) as client:
        await client.start_session("s")
        names = [("put", {"name": name}) for name in "abc"]
        await ask(client, "s", asking(*names, ("look", {})))
        assert await answers(client, "s") == ["a | b | c | seen"]
    assert log == ["begin a", "end a", "begin b", "end b", "begin c", "end c"]


@pytest.mark.requirement("writes-ordered")
async def test_after_an_ordered_write_that_did_not_succeed_the_rest_do_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    async def write(arguments: dict[str, str], _: ToolCallContext) -> str:
        ran.append(arguments["name"])
        if arguments["name"] == "b":
            raise ToolExecutionError("full")
        return "ok"

    put = ordered_write(write)
    async with serve(tmp_path / "a.db", build_flow([put])) as client:
        await client.start_session("s")
        await ask(client, "s", asking(*(("put", {"name": name}) for name in "abcd")))
        calls = (await client.get_agent_snapshot("s")).tool_calls
        await ask(client, "s", asking(("put", {"name": "e"})))
    assert [call.status for call in calls] == ["succeeded", "failed", "not_run", "not_run"]
    assert all(calls[1].tool_call_id in (call.error or "") for call in calls[2:])
    assert ran == ["a", "b", "e"]


async def test_a_policy_wins_over_the_declaration_of_a_tool(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.NON_IDEMPOTENT_WRITE)
    async def publish() -> str:
        """Publish."""
        return "published"

    flow = build_flow([publish], tool_policies={"publish": ToolPolicy(requires_approval=False)})
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("publish", {})))
        assert await answers(client, "s") == ["published"]


@pytest.mark.requirement("results-adjacent")
@pytest.mark.requirement("call-ids-unique")
@pytest.mark.case("BR-020")
@pytest.mark.case("BR-021")
async def test_results_follow_their_response_in_the_asked_order_even_when_the_model_repeats_its_ids(
    tmp_path: Path,
) -> None:
    requests: list[ModelRequest] = []

    @function_tool(effect=ToolEffect.READ)
    async def echo(n: int) -> str:
        """Return the number."""
        return str(n)

    def script(request: ModelRequest) -> ScriptedModelReply:
        requests.append(request)
        reply = obedient(request)
        return ScriptedModelReply(
            text=reply.text,
            tool_calls=tuple(
                type(call)(call.tool_name, call.arguments, model_call_id="same") for call in reply.tool_calls
            ),
        )

    async with serve(tmp_path / "a.db", build_flow([echo], script)) as client:
        await client.start_session("s")
        for _ in range(2):
            await ask(client, "s", asking(*(("echo", {"n": n}) for n in range(5))))
        calls = (await client.get_agent_snapshot("s")).tool_calls
    assert len({call.tool_call_id for call in calls}) == 10
    items = requests[-1].items
    for position, item in enumerate(items):
        if isinstance(item, ModelOutputItem) and item.tool_calls:
            results = items[position + 1 : position + 1 + len(item.tool_calls)]
            assert all(isinstance(result, ModelToolResultItem) for result in results)
            assert [result.output for result in results if isinstance(result, ModelToolResultItem)] == [
                str(n) for n in range(5)
            ]


@pytest.mark.requirement("model-call-limit")
async def test_a_long_turn_of_tool_rounds_ends_at_the_limit_of_model_calls(tmp_path: Path) -> None:
    @function_tool(effect=ToolEffect.READ)
    async def more() -> str:
        """Ask for more."""
        return "more"

    def insatiable(_: ModelRequest) -> ScriptedModelReply:
        return ScriptedModelReply(text="again", tool_calls=(ScriptedToolCall("more"),))

    flow = build_flow([more], insatiable, max_model_calls_per_turn=3)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        progress = await ask(client, "s", "go")
        snapshot = await client.get_agent_snapshot("s")
        after = await ask(client, "s", "go on")
    assert progress.last_turn_outcome == after.last_turn_outcome == "completed"
    assert snapshot.usage.model_calls == 4
    assert snapshot.messages[-1].tool_output == (
        "The tool call was not run: this turn reached its limit of 3 model calls."
    )
