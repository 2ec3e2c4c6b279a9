"""What `make bench-turns` says of its floors, from rounds whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benches.compare.turn_candidates import choose_candidates
from benches.compare.turn_tables import TurnResult, TurnResults, judge_turns
from benches.verdicts import Verdict, print_verdicts

_OURS, _, _, _, _FAST_PEER, _SLOW_PEER, _ = (candidate.name for candidate in choose_candidates(None))


def _result(seconds_a_turn: float, latencies: list[float] | None = None) -> TurnResult:
    level = {"turns": 10, "seconds": 10 * seconds_a_turn, "latencies": latencies or [seconds_a_turn]}
    return {"levels": {"1": level, "64": level}}


def _results(ours: list[TurnResult], *, sync: float = 0.4) -> TurnResults:
    """Rounds beside two peers, of which either is the faster one in some round."""
    candidates = [one for one in choose_candidates(None) if one.name in {_OURS, _FAST_PEER, _SLOW_PEER}]
    peers = {
        _FAST_PEER: [_result(0.2), _result(0.9), _result(0.2)],
        _SLOW_PEER: [_result(0.9), _result(0.4), _result(0.9)],
    }
    history = {_OURS: [{"10": {"seconds": [0.1, 0.1, 9.0]}, "1000": {"seconds": [0.12, 0.12, 9.0]}}] * 3}
    return TurnResults(candidates, {_OURS: ours, **peers}, history, [sync] * 5, 3)


def test_a_round_is_compared_with_the_best_peer_of_the_same_round() -> None:
    results = _results([_result(0.1), _result(0.1), _result(0.1)])

    (verdict, *_) = judge_turns(results, [1], [10])

    assert verdict.value == pytest.approx(2.0)
    assert str(verdict).endswith("2.00x; floor at least 1.5x met, goal at least 3x MISSED")


def test_a_slow_disk_leaves_sequential_turns_unjudged_and_the_others_judged() -> None:
    results = _results([_result(0.4)] * 3, sync=3.5)

    sequential, together, *_ = (str(verdict) for verdict in judge_turns(results, [1, 64], [10]))

    assert sequential.endswith("0.50x; not judged: fdatasync p50 is 3.50 ms, so the disk is measured")
    assert together.endswith("0.50x; floor at least 2x MISSED, goal at least 15x MISSED")


def test_the_tail_is_judged_over_the_turns_of_all_rounds() -> None:
    results = _results([_result(0.1, [0.1] * 50), _result(0.1, [0.1] * 48), _result(0.1, [0.1, 0.5])])

    (verdict,) = (one for one in judge_turns(results, [64], [10]) if one.measure.startswith("p99"))

    assert str(verdict) == "p99 vs p50, 64 sessions: 1.00x; floor at most 4x met, goal at most 2x met"


def test_the_cost_of_a_long_session_is_judged_by_the_medians_of_its_turns() -> None:
    results = _results([_result(0.1)] * 3)

    (verdict,) = judge_turns(results, [], [10, 1000])

    assert str(verdict) == (
        "cost of a turn over 1,000 messages vs 10: 1.20x; floor at most 1.3x met, goal at most 1.1x MISSED"
    )


@pytest.mark.parametrize(("value", "judged"), [(3.0, "met"), (3.01, "MISSED")])
def test_a_bound_is_met_when_it_is_just_reached(value: float, judged: str) -> None:
    verdict = Verdict("a Step", value, goal=3.0, is_upper_bound=True)

    assert str(verdict) == f"a Step: {value:.2f}x; goal at most 3x {judged}"


def test_missed_bounds_are_counted_and_those_that_were_skipped_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missed = Verdict("turns", 1.0, goal=3.0, floor=2.0)

    print_verdicts([missed, replace(missed, skipped="the disk is slow")])

    assert capsys.readouterr().out.splitlines()[-1] == "  2 bounds missed"
