"""What an engine makes of the runs that its predecessor left open."""

from __future__ import annotations

from dex_agents.engine.machine import apply_attempt_failure, settle
from dex_agents.engine.retries import AttemptFailure, read_retry_policy
from dex_agents.engine.state import Run
from dex_agents.engine.unit import Unit


def plan_recovery(run: Run, unit: Unit, now: float) -> None:
    """Decide how every active execution of a run goes on.

    ============================  ===========================================================================
    execution                     decision
    ============================  ===========================================================================
    waiting                       its pending Timers are armed again; past ones fire at once
    attempt marked as started     it may have run, so it counts as failed and follows the retry policy
    attempt due, finite attempts  not marked, so it did not run: sent with the same number
    attempt due, unlimited        may have run, which is allowed: sent as the next attempt
    attempt due later             scheduled as it was
    ============================  ===========================================================================
    """
    for execution in list(run.executions.values()):
        if run.executions.get(execution.number) is not execution:
            continue
        if execution.phase == "waiting":
            if execution.timers:
                unit.timers.append((run, execution))
        elif execution.is_started:
            lost = AttemptFailure("the engine ended while the attempt was running", "EngineRestarted")
            apply_attempt_failure(run, execution, lost, unit, now)
        else:
            if not read_retry_policy(execution).maximum_attempts and execution.due_at <= now:
                execution.attempt += 1
                unit.touch(run)
                unit.put_progress(run, execution)
            unit.ready.append((run, execution))
    settle(run, unit, now)
