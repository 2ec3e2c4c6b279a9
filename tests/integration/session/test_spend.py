"""Spend limiters through the client, on the real engine: when they are asked, told, and what they stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dex_agents import (
    AgentSessionFlow,
    AgentSessionOptions,
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    CompactionPolicy,
    InvalidInputError,
    SpendCheck,
    SpendRefused,
    SpendReport,
    ToolCallsRequested,
    limits,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    TurnContinuationContext,
    function_tool,
)
from dex_agents.spend_limits import SpendLimit, SqliteSpendLimiter, TurnBudget
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, asking, build_flow, obedient, serve
from tests.integration.session.test_compaction import SummarisingModel


@function_tool(effect=ToolEffect.READ)
async def look(n: int) -> str:
    """Look."""
    return f"result {n}"


class Ledger:
    """A limiter that writes down what it is asked and told, in order."""

    def __init__(self, refuse_after: int | None = None) -> None:
        self.checks: list[SpendCheck] = []
        self.reports: list[SpendReport] = []
        self.order: list[str] = []
        self._refuse_after = refuse_after

    async def check(self, check: SpendCheck) -> SpendRefused | None:
        self.checks.append(check)
        self.order.append(f"check {check.purpose}")
        if self._refuse_after is not None and len(self.reports) >= self._refuse_after:
            return SpendRefused("the money is gone")
        return None

    def report(self, report: SpendReport) -> None:
        self.reports.append(report)
        self.order.append(f"report {report.purpose}")


def priced(request: ModelRequest) -> ScriptedModelReply:
    reply = obedient(request)
    usage = AgentUsage(input_tokens=100, output_tokens=10)
    return ScriptedModelReply(text=reply.text, tool_calls=reply.tool_calls, usage=usage)


@pytest.mark.requirement("spend-asked-and-told")
async def test_a_limiter_is_asked_before_and_told_after_each_call(tmp_path: Path) -> None:
    ledger = Ledger()
    async with serve(tmp_path / "a.db", build_flow([look], priced, spend_limiter=ledger)) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("look", {"n": 1})))
        snapshot = await client.get_agent_snapshot("s")
    assert ledger.order == ["check answer", "report answer"] * 2
    assert [one.call_id for one in ledger.reports] == [f"{one.call_id}/1" for one in ledger.checks]
    assert len({one.call_id for one in ledger.reports}) == 2
    assert [one.usage.input_tokens for one in ledger.reports] == [100, 100]
    assert [one.session_usage.model_calls for one in ledger.checks] == [0, 1]
    assert [entry.usage.model_calls for entry in ledger.checks[1].turn_usage] == [1]
    assert snapshot.usage == AgentUsage(model_calls=2, input_tokens=200, output_tokens=20)


@pytest.mark.requirement("spend-refused")
async def test_a_refusal_fails_the_turn_readably_and_the_session_goes_on(tmp_path: Path) -> None:
    ledger = Ledger(refuse_after=1)
    async with serve(tmp_path / "a.db", build_flow([look], priced, spend_limiter=ledger)) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("look", {"n": 1})))
        refused = await client.get_agent_snapshot("s")
        ledger.reports.clear()
        again = await ask(client, "s", "hello")
        after = await client.get_agent_snapshot("s")
    assert (refused.last_turn_outcome, refused.last_turn_error) == ("failed", "the money is gone")
    assert [one.role for one in refused.messages] == ["user", "assistant", "tool", "note"]
    assert refused.messages[2].tool_output == "result 1"
    assert again.last_turn_outcome == "completed"
    assert after.messages[-1].text == "you said: hello"


async def test_a_summary_is_asked_for_and_told_of_by_its_purpose(tmp_path: Path) -> None:
    ledger, model = Ledger(), SummarisingModel()
    policy = CompactionPolicy(context_window_tokens=1_000)
    flow = build_flow(script=model, spend_limiter=ledger, compaction=policy)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        while not model.summaries:
            await ask(client, "s", "question")
    assert ledger.order[-4:] == ["check summary", "report summary", "check answer", "report answer"]
    assert all(one.estimated_input_tokens for one in ledger.checks if one.purpose == "answer")


async def test_a_limiter_is_asked_also_when_a_hook_then_ends_the_turn(tmp_path: Path) -> None:
    def end_after_tools(iteration: TurnContinuationContext) -> str:
        return "end" if iteration.tool_results else "default"

    ledger = Ledger()
    flow = build_flow([look], priced, spend_limiter=ledger, decide_turn_continuation=end_after_tools)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        await ask(client, "s", asking(("look", {"n": 1})))
    assert ledger.order == ["check answer", "report answer", "check answer"]


class _LosesItsFirstAnswer(BuiltinLoopAgentRunner):
    """Hands over an answer that cannot be committed, as a Worker that dies in between does."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        outcome = await super().run_model_step(turn)
        if turn.attempt == 1:
            return ToolCallsRequested(framework_run_state="", tool_calls=(), usage=outcome.usage)
        return outcome


@pytest.mark.requirement("spend-exactly-once")
async def test_each_attempt_that_was_answered_is_told_of_once_under_an_id_of_its_own(tmp_path: Path) -> None:
    ledger = Ledger()
    definition = AgentDefinition(name="desk", model=ScriptedModelClient(priced))
    options = AgentSessionOptions(spend_limiter=ledger)
    flow = AgentSessionFlow(_LosesItsFirstAnswer(definition), "Desk", options)
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        assert (await ask(client, "s", "hello")).last_turn_outcome == "completed"
    assert len({one.call_id for one in ledger.checks}) == 1
    assert [one.call_id for one in ledger.reports] == [f"{ledger.checks[0].call_id}/{n}" for n in (1, 2)]


class _Forgetful(Ledger):
    """A limiter that is away for its first reports."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures = failures

    def report(self, report: SpendReport) -> None:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("the ledger is away")
        super().report(report)


@pytest.mark.requirement("spend-exactly-once")
async def test_a_limiter_that_was_away_is_told_before_the_next_call_and_no_answer_is_lost(
    tmp_path: Path,
) -> None:
    ledger = _Forgetful(failures=3)
    async with serve(tmp_path / "a.db", build_flow(script=priced, spend_limiter=ledger)) as client:
        await client.start_session("s")
        for text in ("one", "two", "three"):
            assert (await ask(client, "s", text)).last_turn_outcome == "completed"
        snapshot = await client.get_agent_snapshot("s")
    assert [one.turn_id for one in ledger.reports] == ["turn-1", "turn-2", "turn-3"]
    assert snapshot.usage.model_calls == 3


@pytest.mark.parametrize("returned", ["no", SpendRefused(" "), False])
async def test_any_other_answer_of_a_limiter_fails_the_attempt_and_spends_nothing(
    tmp_path: Path, returned: Any
) -> None:
    class Odd(Ledger):
        async def check(self, check: SpendCheck) -> Any:
            self.checks.append(check)
            return returned

    odd, calls = Odd(), 0

    def script(request: ModelRequest) -> ScriptedModelReply:
        nonlocal calls
        calls += 1
        return priced(request)

    async with serve(tmp_path / "a.db", build_flow(script=script, spend_limiter=odd)) as client:
        await client.start_session("s")
        progress = await ask(client, "s", "hello")
    assert (progress.last_turn_outcome, calls) == ("failed", 0)
    assert len(odd.checks) == limits.MAX_MODEL_CALL_ATTEMPTS


@pytest.mark.requirement("spend-limits")
async def test_a_turn_budget_stops_a_turn_and_not_the_next_one(tmp_path: Path) -> None:
    flow = build_flow([look], priced, spend_limiter=TurnBudget(max_calls=1))
    async with serve(tmp_path / "a.db", flow) as client:
        await client.start_session("s")
        stopped = await ask(client, "s", asking(("look", {"n": 1})))
        following = await ask(client, "s", "hello")
    assert stopped.last_turn_error == "this turn has used up its budget of 1 model calls"
    assert following.last_turn_outcome == "completed"


@pytest.mark.requirement("spend-limits")
async def test_a_limit_of_a_host_stops_its_other_sessions_too(tmp_path: Path) -> None:
    limiter = SqliteSpendLimiter(tmp_path / "spend.db", {"host": SpendLimit(max_tokens=300)})
    async with serve(tmp_path / "a.db", build_flow(script=priced, spend_limiter=limiter)) as client:
        outcomes: list[str | None] = []
        for number in range(4):
            await client.start_session(f"s{number}")
            outcomes.append((await ask(client, f"s{number}", "hello")).last_turn_outcome)
    limiter.close()
    assert outcomes == ["completed", "completed", "completed", "failed"]


def test_something_that_is_no_limiter_is_refused_by_name() -> None:
    not_a_limiter: Any = object()
    with pytest.raises(InvalidInputError, match="spend_limiter"):
        AgentSessionOptions(spend_limiter=not_a_limiter)
