"""Kills Workers and engines at random moments: `python -m tests.crash.rounds --rounds 25 [--seed S]`.

Progress goes to stderr, one line a round. The last line of stdout is the result. The exit status is 1 when
anything was found; the databases and logs of those rounds are kept then.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dex_agents import AgentSnapshot
from tests.crash.findings import count_findings
from tests.crash.killer import KillCounts
from tests.crash.round_driver import play_round
from tests.crash.round_plan import Kill, RoundPlan, plan_round
from tests.crash.round_report import RoundReport

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.rounds", description=__doc__)
    parser.add_argument("--rounds", type=_positive, default=25, help="how many rounds to play")
    parser.add_argument("--seed", type=int, help="play the rounds of an earlier run again")
    parser.add_argument("--only", type=_positive, metavar="ROUND", help="play one round of the seed only")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"crash: seed {seed}", file=sys.stderr, flush=True)
    numbers = range(1, options.rounds + 1) if options.only is None else (options.only,)
    try:
        reports = asyncio.run(_play([plan_round(seed, number) for number in numbers]))
    except asyncio.CancelledError:
        print("crash: stopped before the end", file=sys.stderr)
        return 1
    found = any(report.findings.problems for report in reports)
    if found:
        print(f"crash: play it again with --seed {seed}", file=sys.stderr)
    kills = sum((report.kills for report in reports), KillCounts())
    print(f"crash: rounds {len(reports)}, {count_findings(report.findings for report in reports)}, {kills}")
    return int(found)


async def _play(plans: Sequence[RoundPlan]) -> list[RoundReport]:
    playing = asyncio.current_task()
    assert playing is not None
    # The processes that a round has started must not outlive it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    reports: list[RoundReport] = []
    earlier: list[AgentSnapshot] = []
    folder: Path | None = None
    has_findings = False
    for plan in plans:
        if folder is None or plan.is_on_fresh_database:
            _remove(None if has_findings else folder)
            folder, earlier, has_findings = Path(tempfile.mkdtemp(prefix="crash-rounds-")), [], False
        report = await play_round(plan, folder, earlier)
        reports.append(report)
        earlier += report.settled
        print(_describe(plan, report), file=sys.stderr, flush=True)
        if report.findings.problems:
            has_findings = True
            print("\n".join(f"  {one}" for one in report.findings.problems), file=sys.stderr)
            print(f"  kept: {folder}", file=sys.stderr, flush=True)
    _remove(None if has_findings else folder)
    return reports


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder)


def _describe(plan: RoundPlan, report: RoundReport) -> str:
    planned = ", ".join(_describe_kill(kill) for kill in plan.kills)
    statuses = Counter(call.status for snapshot in report.settled for call in snapshot.tool_calls)
    calls = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return (
        f"crash: round {plan.number}: {'FOUND' if report.findings.problems else 'ok'}, "
        f"{report.seconds:.1f} s, {'new' if plan.is_on_fresh_database else 'same'} database, "
        f"Workers: {plan.workers}; planned: {planned}; {report.kills}; calls: {calls}; "
        f"answers: {report.answers}; summaries: {report.summaries}"
    )


def _describe_kill(kill: Kill) -> str:
    after = f"{kill.moment.then_seconds:.2f} s after {kill.moment.count} {kill.moment.of}"
    match kill.victim:
        case "a worker at a gate":
            return f"{kill.victim} ({kill.place})"
        case "the engine in a commit":
            return f"{kill.victim} ({kill.place}, number {kill.number}) {after}"
        case _:
            return f"{kill.victim} {after}"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
