"""What is typed while a turn is at work, in a real terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.cli.console import CTRL_C, CTRL_D, CTRL_U, Console, Terminal

each_style = pytest.mark.parametrize("style", ["drawn", "plain"])


def start_long_turn(
    console: Console, style: str, *arguments: str, then: str = "true"
) -> tuple[Terminal, Path]:
    """Return a terminal whose turn goes on until something is written to the pipe."""
    go = console.work / "go"
    os.mkfifo(go)
    options = ["--plain"] if style == "plain" else []
    terminal = console.open("chat", *options, *arguments)
    terminal.expect_prompt()
    terminal.type(f"run touch begun; cat go; {then}")
    if "--yes" not in arguments:
        terminal.expect("Run run_command")
        terminal.type("y")
    console.wait_for_file("begun")
    return terminal, go


@pytest.mark.requirement("cli-typing")
@each_style
def test_a_line_joins_the_turn_that_is_at_work(console: Console, style: str) -> None:
    terminal, go = start_long_turn(console, style, "--yes")
    terminal.type("read late.txt")
    terminal.expect("> read late.txt")
    terminal.expect("joins the turn")
    go.write_text("on\n")
    terminal.expect("read_file(?s:.*)late.txt: No such file")
    terminal.expect_prompt()
    assert terminal.leave() == 0
    assert console.run("sessions").stdout.split("waiting,")[0].count(", 1 turns, last completed") == 1


@pytest.mark.requirement("cli-typing")
def test_a_line_may_wait_for_a_turn_of_its_own(console: Console) -> None:
    terminal, go = start_long_turn(console, "drawn", "--yes")
    terminal.type("/queue list")
    terminal.expect("> list")
    terminal.expect("waits for its own turn")
    go.write_text("on\n")
    terminal.expect("list_files.*returned")
    terminal.expect_prompt()
    assert terminal.leave() == 0
    assert ", 2 turns, last completed" in console.run("sessions").stdout


@pytest.mark.requirement("cli-typing")
@each_style
def test_an_unfinished_line_stands_at_the_next_prompt(console: Console, style: str) -> None:
    terminal, go = start_long_turn(console, style, "--yes")
    terminal.press("read half")
    go.write_text("on\n")
    terminal.expect_prompt()
    terminal.type(".txt")
    terminal.expect("half.txt: No such file")


@pytest.mark.requirement("cli-typing")
@each_style
def test_what_was_typed_before_a_question_never_answers_it(console: Console, style: str) -> None:
    terminal, go = start_long_turn(console, style)
    # A line of its own that joins the turn makes the model ask for another command.
    terminal.type("run touch made")
    terminal.expect("joins the turn")
    terminal.press("y")
    go.write_text("on\n")
    if style == "drawn":
        terminal.expect("Finish your line first")
        terminal.press(CTRL_U)
    terminal.expect("\\[e\\]dit:")
    assert not (console.work / "made").exists()
    terminal.type("n")
    terminal.expect("Rejected")
    terminal.expect_prompt()
    assert not (console.work / "made").exists()


@pytest.mark.requirement("cli-typing")
def test_a_line_that_is_finished_at_a_question_joins_the_turn_instead_of_an_answer(console: Console) -> None:
    terminal, go = start_long_turn(console, "drawn")
    terminal.type("run touch made")
    terminal.expect("joins the turn")
    terminal.press("li")
    go.write_text("on\n")
    terminal.expect("Finish your line first")
    terminal.type("st")
    terminal.expect("> list")
    terminal.expect("list_files.*returned")
    terminal.expect_prompt()
    assert not (console.work / "made").exists()


@pytest.mark.requirement("cli-typing")
def test_keys_for_the_turn_work_while_something_is_typed(console: Console) -> None:
    terminal, _ = start_long_turn(console, "drawn", "--yes", then="touch ended")
    terminal.press("half a line")
    terminal.press(CTRL_C)
    terminal.expect("The turn was cancelled")
    terminal.expect_prompt()
    terminal.press(CTRL_U)
    assert terminal.leave() == 130
    assert not (console.work / "ended").exists()


@pytest.mark.requirement("cli-typing")
@each_style
def test_one_may_leave_while_a_turn_is_at_work(console: Console, style: str) -> None:
    terminal, go = start_long_turn(console, style, "--yes", then="touch ended")
    terminal.press(CTRL_D)
    terminal.expect_end()
    assert "--resume" in terminal.seen
    go.write_text("on\n")
    console.wait_for_file("ended")


@pytest.mark.requirement("cli-typing")
def test_a_line_that_is_not_accepted_is_not_lost(console: Console) -> None:
    terminal, go = start_long_turn(console, "drawn", "--yes")
    terminal.type("/image missing.png")
    terminal.expect("Not sent: image: missing.png: No such file")
    go.write_text("on\n")
    terminal.expect_prompt()
    terminal.expect("/image missing.png")
