from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from datetime import timedelta
from pathlib import Path

import dex
import pytest

from tests.integration.engine.room import BOUND, AsyncStep, open_room

SECOND = timedelta(seconds=1)
ONE_SECOND_RETRY = dex.RetryPolicy(initial_interval=SECOND, maximum_attempts=2)
ONCE = dex.RetryPolicy(maximum_attempts=1)


class Attempts:
    """What the Steps of one test saw."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.first_at: set[float] = set()
        self.times: list[float] = []

    def note(self, context: dex.Context) -> int:
        self.numbers.append(context.attempt)
        self.first_at.add(context.first_attempt_at.timestamp())
        self.times.append(asyncio.get_running_loop().time())
        return context.attempt


class Flaky(AsyncStep[str]):
    def __init__(self, seen: Attempts, retry: dex.RetryPolicy, delay: int = 0) -> None:
        self._seen = seen
        self._retry = retry
        self._delay = delay

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_retry=self._retry).on_execute_failure_proceed_to(Recover)

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        attempt = self._seen.note(context)
        if attempt == 1 and context.has_last_heartbeat_value():
            return dex.force_fail("a first attempt has no heartbeat")
        await context.heartbeat(f"beat {attempt}")
        if attempt < 3:
            error = RuntimeError(f"attempt {attempt} failed")
            raise dex.retry_after(self._delay, error) if self._delay else error
        return dex.graceful_complete(context.get_last_heartbeat_value(str))


class Recover(AsyncStep[str]):
    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        error = context.recovery_error
        assert error is not None
        return dex.graceful_complete(f"{input}: {error.detail} ({error.error_type})")


class OneStep(dex.Flow[str]):
    def __init__(self, step: dex.Step[str]) -> None:
        self._step = step

    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(self._step).other_steps(Recover())


async def test_a_failing_step_is_tried_again_and_keeps_its_heartbeat(tmp_path: Path) -> None:
    seen = Attempts()
    flow = OneStep(Flaky(seen, dex.RetryPolicy(initial_interval=SECOND, backoff_coefficient=1.0)))
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "flaky", "in")
        assert result.single_output(str) == "beat 2"
    assert seen.numbers == [1, 2, 3]
    assert len(seen.first_at) == 1


async def test_a_step_can_ask_for_a_later_retry(tmp_path: Path) -> None:
    seen = Attempts()
    flow = OneStep(Flaky(seen, dex.RetryPolicy(initial_interval=timedelta(hours=1)), delay=1))
    async with open_room(tmp_path, flow) as room:
        assert (await room.run(flow, "flaky", "in")).single_output(str) == "beat 2"
    assert all(later - earlier >= 1 for earlier, later in zip(seen.times, seen.times[1:], strict=False))


async def test_an_exhausted_step_proceeds_with_its_input_and_error(tmp_path: Path) -> None:
    seen = Attempts()
    flow = OneStep(Flaky(seen, ONE_SECOND_RETRY))
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "flaky", "in")
        assert result.single_output(str) == "in: attempt 2 failed (builtins.RuntimeError)"
    assert seen.numbers == [1, 2]


async def test_a_single_attempt_runs_once_and_fails_the_flow_without_a_policy(tmp_path: Path) -> None:
    class Once(AsyncStep[str]):
        runs = 0

        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(execute_retry=ONCE)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            Once.runs += 1
            raise RuntimeError("charged twice?")

    flow = OneStep(Once())
    async with open_room(tmp_path, flow) as room:
        result = await room.run(flow, "once", "in")
        assert result.status is dex.FlowStatus.FAILED
        assert result.error_type is dex.FlowErrorType.WORKER_API_FAILED
        assert result.error_message == "charged twice?"
    assert Once.runs == 1


async def test_a_method_that_does_not_return_in_time_is_cancelled(tmp_path: Path) -> None:
    class Stuck(AsyncStep[str]):
        cancelled = asyncio.Event()

        def get_step_options(self) -> dex.StepOptions:
            options = dex.StepOptions(execute_method_timeout=SECOND, execute_retry=ONCE)
            return options.on_execute_failure_proceed_to(Recover)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            try:
                await asyncio.Event().wait()
            finally:
                Stuck.cancelled.set()
            return dex.dead_end()

    flow = OneStep(Stuck())
    async with open_room(tmp_path, flow) as room, asyncio.timeout(BOUND.total_seconds()):
        result = await room.run(flow, "stuck", "in")
        assert result.single_output(str).endswith("(MethodTimeout)")
        await Stuck.cancelled.wait()


async def test_a_silent_step_loses_its_attempt_and_a_beating_one_does_not(tmp_path: Path) -> None:
    class Silent(AsyncStep[str]):
        cancelled = asyncio.Event()

        def get_step_options(self) -> dex.StepOptions:
            options = dex.StepOptions(heartbeat_timeout=SECOND, execute_retry=ONCE)
            return options.on_execute_failure_proceed_to(Recover)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            loop = asyncio.get_running_loop()
            start = loop.time()
            while loop.time() < start + 2:
                await context.heartbeat()
                await asyncio.sleep(0.1)
            try:
                await asyncio.Event().wait()
            finally:
                Silent.cancelled.set()
            return dex.dead_end()

    flow = OneStep(Silent())
    async with open_room(tmp_path, flow) as room, asyncio.timeout(BOUND.total_seconds()):
        loop = asyncio.get_running_loop()
        start = loop.time()
        result = await room.run(flow, "silent", "in")
        assert result.single_output(str).endswith("(HeartbeatTimeout)")
        assert loop.time() - start >= 3
        await Silent.cancelled.wait()


async def test_a_failed_wait_for_can_proceed_to_execute(tmp_path: Path) -> None:
    class Doomed(AsyncStep[str]):
        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(wait_for_retry=ONCE, wait_for_failure=dex.WaitForFailurePolicy.PROCEED)

        def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
            raise RuntimeError("no condition")

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            assert context.recovery_error is not None
            return dex.graceful_complete(
                f"{context.wait_for_method_failed()} {context.recovery_error.detail}"
            )

    flow = OneStep(Doomed())
    async with open_room(tmp_path, flow) as room:
        assert (await room.run(flow, "doomed", "in")).single_output(str) == "True no condition"


balance = dex.Attribute("balance", int)


class Deposit(AsyncStep[int]):
    inside = 0
    most = 0

    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_lock_attributes=(balance.lock(),))

    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        Deposit.inside += 1
        Deposit.most = max(Deposit.most, Deposit.inside)
        before = balance.get(context)
        await asyncio.sleep(0)
        balance.set(context, before + input)
        Deposit.inside -= 1
        return dex.graceful_complete()


class Spread(AsyncStep[int]):
    async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
        return dex.go_to_many(*(dex.StepMovement[int].of(Deposit, 1) for _ in range(input)))


class Bank(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList[int].start_step(Spread()).other_steps(Deposit())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(balance)

    @dex.rpc
    def read(self, context: dex.Context) -> dex.RPCResult[int]:
        return dex.RPCResult(balance.get(context))


async def test_steps_that_lock_one_attribute_take_turns(tmp_path: Path) -> None:
    flow = Bank()
    async with open_room(tmp_path, flow) as room:
        assert (await room.run(flow, "bank", 20)).status is dex.FlowStatus.COMPLETED
        assert await room.client.invoke_rpc(flow.read, "bank") == 20
    assert Deposit.most == 1


async def test_an_invalid_result_is_a_failed_attempt(tmp_path: Path) -> None:
    class Huge(AsyncStep[str]):
        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(execute_retry=ONCE).on_execute_failure_proceed_to(Recover)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            vault.set(context, "x" * 4_000_000)
            return dex.dead_end()

    vault = dex.Attribute("vault", str, hard_delete_on_null=True)

    class Vault(OneStep):
        def get_persistence_schema(self) -> dex.PersistenceSchema:
            return dex.PersistenceSchema.of(vault)

    flow = Vault(Huge())
    async with open_room(tmp_path, flow) as room:
        output = (await room.run(flow, "huge", "in")).single_output(str)
        assert "above the limit of 3500000" in output
        assert output.endswith("(InvalidStepResult)")


@pytest.mark.parametrize("workers", [1, 3])
async def test_work_is_shared_without_losing_or_repeating_any(tmp_path: Path, workers: int) -> None:
    class Note(AsyncStep[str]):
        runs: dict[str, int]

        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(execute_retry=ONCE)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            Note.runs[context.flow_id] = Note.runs.get(context.flow_id, 0) + 1
            return dex.graceful_complete(input)

    Note.runs = {}
    flow = OneStep(Note())
    async with open_room(tmp_path, flow, workers=workers) as room:
        ids = [f"flow-{number}" for number in range(60)]
        await asyncio.gather(*(room.run(flow, flow_id, "x") for flow_id in ids))
    assert Note.runs == dict.fromkeys(ids, 1)


async def test_the_mark_of_a_limited_attempt_costs_no_commit_of_its_own(tmp_path: Path) -> None:
    class Countdown(AsyncStep[int]):
        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(execute_retry=ONCE)

        async def execute(self, context: dex.AsyncContext, input: int) -> dex.StepDecision:
            return dex.go_to(Countdown, input - 1) if input > 1 else dex.graceful_complete(input)

    class Chain(dex.Flow[int]):
        def get_steps(self) -> dex.StepList[int]:
            return dex.StepList[int].start_step(Countdown())

    async def count_units(steps: int) -> int:
        folder = tmp_path / str(steps)
        folder.mkdir()
        flow = Chain()
        async with open_room(folder, flow) as room:
            await room.run(flow, "f", steps)
            path = room.database
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (units,) = connection.execute("SELECT value FROM meta WHERE name = 'folded'").fetchone()
        return int(units)

    assert await count_units(9) - await count_units(4) == 5


@pytest.mark.parametrize("drains", [True, False])
async def test_a_stop_that_drains_lets_a_running_step_be_answered(tmp_path: Path, drains: bool) -> None:
    running, gate = asyncio.Event(), asyncio.Event()

    class Held(AsyncStep[str]):
        def get_step_options(self) -> dex.StepOptions:
            return dex.StepOptions(execute_retry=ONCE).on_execute_failure_proceed_to(Recover)

        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            running.set()
            await gate.wait()
            return dex.go_to(After, input)

    class After(AsyncStep[str]):
        async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
            return dex.graceful_complete("answered")

    class HeldFlow(dex.Flow[str]):
        def get_steps(self) -> dex.StepList[str]:
            return dex.StepList[str].start_step(Held()).other_steps(After(), Recover())

    flow = HeldFlow()
    drain = BOUND if drains else timedelta(0)
    async with open_room(tmp_path, flow, drain=drain) as room:
        await room.client.start_flow(flow, "f", "in")
        await running.wait()
        stopping = asyncio.create_task(room.engine.stop())
        if drains:
            # The engine still serves, but hands out no more.
            assert await room.client.health_check()
            gate.set()
        await stopping
        gate.set()
        await room.engine.start()
        async with asyncio.timeout(BOUND.total_seconds()):
            while True:
                with contextlib.suppress(dex.DexServiceError):
                    result = await room.client.wait_for_flow("f", BOUND)
                    break
                await asyncio.sleep(0.01)
        expected = (
            "answered" if drains else "in: the engine ended while the attempt was running (EngineRestarted)"
        )
        assert result.single_output(str) == expected
