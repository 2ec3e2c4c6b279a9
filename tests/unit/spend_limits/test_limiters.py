"""The shipped limiters, asked and told by hand."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dex_agents.errors import InvalidInputError
from dex_agents.session.spend import SpendCheck, SpendRefused
from dex_agents.spend_limits import SpendLimit, SqliteSpendLimiter, TurnBudget
from dex_agents.wire.spend import SpendReport
from dex_agents.wire.usage import AgentUsage, ModelUsage


def _check(session_id: str = "s", *usages: ModelUsage, **fields: Any) -> SpendCheck:
    return SpendCheck(
        call_id=f"{session_id}/turn-1/RunModel-1/answer",
        session_id=session_id,
        turn_id="turn-1",
        attempt=1,
        purpose="answer",
        turn_usage=usages,
        **fields,
    )


def _report(number: int, session_id: str = "s", model: str | None = "gpt-5", **fields: Any) -> SpendReport:
    return SpendReport(
        call_id=f"{session_id}/{number}",
        session_id=session_id,
        turn_id="turn-1",
        attempt=1,
        purpose="answer",
        usage=AgentUsage(model_calls=1, input_tokens=600, output_tokens=400),
        model=model,
        **fields,
    )


def _used(calls: int, model: str | None = "gpt-5") -> ModelUsage:
    return ModelUsage(
        model, AgentUsage(model_calls=calls, input_tokens=600_000 * calls, output_tokens=100_000 * calls)
    )


@pytest.mark.parametrize(
    ("budget", "refused_after"),
    [
        (TurnBudget(max_calls=3), 3),
        (TurnBudget(max_tokens=1_400_000), 2),
        # A call of gpt-5 costs 0.6 x 1.25 + 0.1 x 10 = 1.75.
        (TurnBudget(max_cost=Decimal("5.25")), 3),
        (TurnBudget(max_cost=5.26), 4),
    ],
)
def test_a_turn_is_refused_once_it_has_used_up_its_budget(budget: TurnBudget, refused_after: int) -> None:
    answers = [budget.check(_check("s", _used(calls))) for calls in range(1, refused_after + 1)]
    assert answers[:-1] == [None] * (refused_after - 1)
    assert isinstance(answers[-1], SpendRefused)
    assert "budget" in answers[-1].reason


def test_a_model_without_a_price_is_refused_only_where_money_counts() -> None:
    check = _check("s", _used(1, "house-model"))
    refused = TurnBudget(max_cost=10).check(check)
    assert refused is not None
    assert "house-model" in refused.reason
    assert TurnBudget(max_calls=10).check(check) is None


@pytest.mark.parametrize(
    ("limit", "fields"),
    [
        (TurnBudget, {}),
        (TurnBudget, {"max_calls": 0}),
        (TurnBudget, {"max_tokens": -1}),
        (TurnBudget, {"max_cost": -0.5}),
        (SpendLimit, {}),
        (SpendLimit, {"max_calls": -1}),
        (SpendLimit, {"max_cost": float("nan")}),
        (SpendLimit, {"max_calls": 1, "window": timedelta(0)}),
    ],
    ids=str,
)
def test_a_limit_that_means_nothing_is_refused(limit: type, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        limit(**fields)


@pytest.mark.requirement("spend-exactly-once")
async def test_a_report_that_comes_again_counts_once_also_from_another_process(tmp_path: Path) -> None:
    limits = {"host": SpendLimit(max_calls=3)}
    first = SqliteSpendLimiter(tmp_path / "spend.db", limits)
    second = SqliteSpendLimiter(tmp_path / "spend.db", limits)
    for _ in range(3):
        await first.report(_report(1))
        await second.report(_report(1))
    assert await first.check(_check()) is None
    await first.report(_report(2))
    await second.report(_report(3))
    refused = await second.check(_check("another"))
    assert refused == SpendRefused("the host has reached its limit of 3 model calls")
    first.close()
    second.close()


async def test_each_member_of_a_scope_has_a_count_of_its_own(tmp_path: Path) -> None:
    def tenant_of(call: SpendCheck | SpendReport) -> Mapping[str, str]:
        return {"tenant": call.session_settings["tenant"]}

    limits = {"tenant": SpendLimit(max_tokens=1_500), "session": SpendLimit(max_calls=2)}
    limiter = SqliteSpendLimiter(tmp_path / "spend.db", limits, scopes=tenant_of)
    for number, session_id in enumerate(("a", "b")):
        await limiter.report(_report(number, session_id, session_settings={"tenant": "acme"}))
    assert await limiter.check(_check("c", session_settings={"tenant": "acme"})) == SpendRefused(
        "the tenant acme has reached its limit of 1500 tokens"
    )
    assert await limiter.check(_check("a", session_settings={"tenant": "other"})) is None
    await limiter.report(_report(7, "a", session_settings={"tenant": "other"}))
    refused = await limiter.check(_check("a", session_settings={"tenant": "other"}))
    assert refused == SpendRefused("the session a has reached its limit of 2 model calls")
    limiter.close()


async def test_a_count_begins_anew_with_each_window(tmp_path: Path) -> None:
    now = 1_000_000.0
    limits = {"host": SpendLimit(max_calls=1, window=timedelta(hours=1))}
    limiter = SqliteSpendLimiter(tmp_path / "spend.db", limits, clock=lambda: now)
    await limiter.report(_report(1))
    assert await limiter.check(_check()) is not None
    now += 3_600
    assert await limiter.check(_check()) is None
    limiter.close()


async def test_money_is_counted_by_the_price_table_and_a_missing_price_stops(tmp_path: Path) -> None:
    limiter = SqliteSpendLimiter(tmp_path / "spend.db", {"session": SpendLimit(max_cost=Decimal("0.0095"))})
    # A call costs 600 x 1.25 / 1e6 + 400 x 10 / 1e6 = 0.00475.
    await limiter.report(_report(1))
    assert await limiter.check(_check()) is None
    await limiter.report(_report(2))
    assert await limiter.check(_check()) is not None
    await limiter.report(_report(3, "t", model="house-model"))
    refused = await limiter.check(_check("t"))
    assert refused is not None
    assert "no price" in refused.reason
    limiter.close()


def _spend(path: Path, process: int) -> None:
    async def report() -> None:
        limiter = SqliteSpendLimiter(path, {"host": SpendLimit(max_calls=10_000)})
        # Half of the calls are this process's own, half are reported by all of them.
        await asyncio.gather(
            *(limiter.report(_report(n, f"p{process}" if n % 2 else "all")) for n in range(40))
        )
        limiter.close()

    asyncio.run(report())


@pytest.mark.requirement("spend-exactly-once")
async def test_processes_that_report_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "spend.db"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_spend, args=(path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 60)
        assert process.exitcode == 0
    expected = 3 * 20 + 20
    for calls, refused in ((expected, True), (expected + 1, False)):
        limiter = SqliteSpendLimiter(path, {"host": SpendLimit(max_calls=calls)})
        assert (await limiter.check(_check()) is not None) is refused
        limiter.close()
