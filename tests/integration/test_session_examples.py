"""The examples of what a session can do print what their readers expect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def run_example(name: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"examples.{name}"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_a_tool_source_offers_what_it_has_at_the_time() -> None:
    assert run_example("tool_source") == [
        "Rent is due on Friday.",
        "Rent is due on Friday. Tea is in the tin.",
    ]


def test_the_model_and_a_tool_ask_the_user() -> None:
    assert run_example("questions") == [
        "Where do you want to go?",
        "Which class to Turin?",
        "Booked: a second class seat to Turin.",
    ]


def test_a_plan_is_reviewed_before_it_is_carried_out() -> None:
    assert run_example("plan_mode") == [
        "Please review the plan.",
        "draft | pending: Count the chairs | pending: Order what is missing",
        "All done.",
        "done | completed: Count the chairs | completed: Order what is missing",
    ]


def test_an_unknown_outcome_is_looked_up_or_settled() -> None:
    assert run_example("unknown_outcome") == [
        "succeeded | paid 3 EUR",
        "outcome_unknown | None",
        "the letter came",
    ]


def test_a_user_steers_queues_and_withdraws() -> None:
    assert run_example("steering") == [
        "the first order can still be approved: False",
        "queued: ['Tiramisu']",
        "1 turn: a Margherita is on its way",
    ]


def test_everything_that_waits_on_a_person_is_found_in_one_call() -> None:
    assert run_example("waiting_sessions") == [
        'ask question ask_user {"questions": [{"id": "who", "question": "Who is it for?"}]}',
        'pay approval pay {"euros": 40}',
        "pay -> paid 40 EUR",
        'ask -> {"who": "Ada"}',
        "waiting on a person now: []",
    ]


def test_a_turn_goes_on_until_its_decision_and_ends_with_it() -> None:
    assert run_example("continuation") == [
        "user: May I buy a desk?",
        "assistant: It looks reasonable.",
        "user: Decide now.",
        "assistant: (calls submit_decision)",
        "tool: approved",
        "1 turn, 2 model calls",
    ]


def test_a_long_conversation_is_summarised_and_its_old_messages_go() -> None:
    assert run_example("compaction") == [
        "summary: The user is called Ada.",
        "I know your name from a summary",
        "old messages were deleted: True",
        "stored and deleted: 26",
    ]


def test_a_session_changes_its_model_and_comes_back_to_it() -> None:
    assert run_example("session_settings") == [
        "swift: I see 0 of my own answers as I gave them.",
        "deep: I see 0 of my own answers as I gave them.",
        "swift: I see 1 of my own answers as I gave them.",
    ]


def test_one_tenants_money_runs_out_and_anothers_does_not() -> None:
    assert run_example("spend_limits") == [
        "acme | answered",
        "acme | answered",
        "acme | the tenant acme has reached its limit of 1500 tokens",
        "bolt | answered",
    ]


def test_a_viewer_that_comes_late_shows_everything_once() -> None:
    assert run_example("live_view") == [
        "snapshot: user Write.",
        "events: Answer 1: one two three four",
        "events: another turn",
        "events: Answer 2: one two three four",
        "events: closed",
    ]


def test_images_of_messages_and_results_are_shown() -> None:
    assert run_example("images") == [
        "user: Like this? [image/png]",
        "tool: a blue square [image/png]",
        "assistant: I see 2 images.",
    ]
