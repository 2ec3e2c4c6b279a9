"""`dex-agents chat` in a real terminal."""

from __future__ import annotations

import os
import re
import stat

import pytest

from tests.integration.cli.console import CTRL_C, CTRL_D, CTRL_U, Console, Terminal


def resume_id(shown: str) -> str:
    found = re.search(r"--resume ([0-9a-f]{8})", shown)
    assert found is not None, shown
    return found.group(1)


def start_chat(console: Console, *arguments: str, columns: int = 100) -> Terminal:
    terminal = console.open("chat", *arguments, columns=columns)
    terminal.expect_prompt()
    return terminal


def test_a_chat_answers_and_says_how_to_go_on(console: Console) -> None:
    (console.work / "notes.md").write_text("remember the milk\n")
    terminal = start_chat(console)
    terminal.type("read notes.md")
    assert "remember the milk" in terminal.expect("read_file.*returned")
    terminal.expect_prompt()
    assert terminal.leave() == 0
    session_id = resume_id(terminal.seen)
    shown = console.run("show", session_id)
    assert "remember the milk" in shown.stdout


def test_the_first_run_makes_a_private_configuration(console: Console) -> None:
    terminal = start_chat(console)
    assert "default.yaml" in terminal.seen
    assert terminal.leave() == 0
    assert stat.S_IMODE(console.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(console.agents.stat().st_mode) == 0o700
    for file in console.agents.iterdir():
        assert not file.stat().st_mode & 0o077 or stat.S_ISSOCK(file.stat().st_mode), file


def test_an_approved_write_is_made(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("write plan.txt first things first")
    card = terminal.expect("Run write_file")
    assert "first things first" in card
    assert not (console.work / "plan.txt").exists()
    terminal.type("y")
    terminal.expect("Approved")
    terminal.expect("returned")
    terminal.expect_prompt()
    assert (console.work / "plan.txt").read_text() == "first things first\n"


def test_a_rejected_command_does_not_run(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("run touch made")
    terminal.expect("Run run_command")
    terminal.type("n not today")
    assert "not today" in terminal.expect("returned(?s:.*)not today")
    terminal.expect_prompt()
    assert not (console.work / "made").exists()


def test_a_person_can_change_the_arguments(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("run touch wrong")
    terminal.expect("Run run_command")
    terminal.type("e")
    terminal.expect("Arguments:")
    terminal.press(CTRL_U)
    terminal.type('{"command": 5}')
    terminal.expect("Run run_command")
    terminal.type("y")
    terminal.expect("Not accepted")
    terminal.expect("Run run_command")
    terminal.type("e")
    terminal.expect("Arguments:")
    terminal.press(CTRL_U)
    terminal.type('{"command": "touch right"}')
    terminal.expect("Run run_command")
    terminal.type("y")
    terminal.expect("with changed arguments")
    terminal.expect_prompt()
    assert sorted(file.name for file in console.work.iterdir()) == ["right"]


def test_an_editor_changes_the_arguments(console: Console) -> None:
    editor = console.home / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i s/wrong/right/ "$1"\n')
    editor.chmod(0o700)
    terminal = console.open("chat", environment={"EDITOR": str(editor)})
    terminal.expect_prompt()
    terminal.type("run touch wrong")
    terminal.expect("Run run_command")
    terminal.type("e")
    terminal.expect("touch right")
    terminal.expect("Run run_command")
    terminal.type("y")
    terminal.expect("exit status 0")
    assert sorted(file.name for file in console.work.iterdir()) == ["right"]


def test_questions_are_answered_by_number_and_by_words(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("ask")
    terminal.expect("Which colour")
    terminal.expect("Answer:")
    terminal.type("2")
    terminal.expect("What shall it be called")
    terminal.expect("Answer:")
    terminal.type("Azure")
    # The line itself may be drawn more than once; the option that 2 stands for is in the result alone.
    terminal.expect("blue(?s:.*)Azure")


def test_ctrl_c_cancels_the_turn_and_the_command_in_it(console: Console) -> None:
    terminal = start_chat(console, "--yes")
    os.mkfifo(console.work / "go")
    terminal.type("run touch begun; cat go; touch ended")
    console.wait_for_file("begun")
    terminal.press(CTRL_C)
    terminal.expect("The turn was cancelled")
    terminal.expect_prompt()
    terminal.type("list")
    terminal.expect("returned")
    assert not (console.work / "ended").exists()


def test_ctrl_c_at_an_approval_cancels_the_turn(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("run touch made")
    terminal.expect("Run run_command")
    terminal.press(CTRL_C)
    terminal.expect("The turn was cancelled")
    terminal.expect_prompt()
    assert terminal.leave() == 130
    assert not (console.work / "made").exists()


def test_a_session_goes_on_after_everything_was_killed(console: Console) -> None:
    first = start_chat(console)
    first.type("list")
    first.expect("returned")
    first.expect_prompt()
    first.type("run touch made")
    first.expect("Run run_command")
    listed = console.run("sessions", "--waiting")
    session_id = listed.stdout.split()[0]
    first.kill()
    console.kill_host()
    second = console.open("chat", "--resume", session_id)
    assert "list_files" in second.expect("Run run_command")
    second.type("y")
    second.expect("exit status 0")
    second.expect_prompt()
    assert (console.work / "made").exists()


def test_a_chat_outlives_its_host(console: Console) -> None:
    terminal = start_chat(console)
    terminal.type("list")
    terminal.expect("returned")
    terminal.expect_prompt()
    console.kill_host()
    terminal.type("run echo still here")
    terminal.expect("Run run_command")
    terminal.type("y")
    terminal.expect("still here(?s:.*)exit status 0")


def test_another_terminal_approves_what_this_one_waits_on(console: Console) -> None:
    first = start_chat(console)
    first.type("run touch made")
    first.expect("Run run_command")
    session_id = console.run("sessions", "--waiting").stdout.split()[0]
    assert console.run("approve", session_id).returncode == 0
    first.expect("decided elsewhere")
    first.expect("exit status 0")
    first.expect_prompt()
    assert (console.work / "made").exists()
    assert console.run("approve", session_id).returncode == 4


def test_leaving_at_an_approval_leaves_it_open(console: Console) -> None:
    first = start_chat(console)
    first.type("run touch made")
    first.expect("Run run_command")
    first.press(CTRL_D)
    first.expect_end()
    session_id = resume_id(first.seen)
    assert console.run("reject", session_id, "no thanks").returncode == 0
    shown = console.run("run", "--resume", session_id, "list")
    assert shown.returncode == 0
    assert "no thanks" in console.run("show", session_id).stdout


def test_a_message_may_have_several_lines(console: Console) -> None:
    terminal = start_chat(console)
    terminal.press("list")
    terminal.press("\x1b\r")
    terminal.type("read missing.txt")
    terminal.expect("list_files(?s:.*)returned(?s:.*)read_file(?s:.*)returned")


@pytest.mark.parametrize("columns", [40, 200])
def test_a_terminal_of_any_width_is_filled_and_not_overrun(console: Console, columns: int) -> None:
    terminal = start_chat(console, columns=columns)
    terminal.type("run echo " + "word " * 30)
    shown = terminal.expect("Run run_command")
    card = shown[shown.rindex("╭") : shown.rindex("╯") + 1].replace("\r", "").split("\n")
    assert len(card) > 3
    assert all(len(line) == columns for line in card)


def test_what_keeps_the_agent_from_opening_ends_the_prompt(console: Console) -> None:
    terminal = console.open("chat", "--model", "anthropic/some")
    terminal.expect("anthropic/some needs ANTHROPIC_API_KEY")
    assert terminal.expect_end() == 2


def test_a_broken_configuration_is_told_before_anything_is_asked(console: Console) -> None:
    console.agents.mkdir(parents=True)
    console.config.write_text("model: demo\nmodle: demo\n")
    terminal = console.open("chat")
    terminal.expect("default.yaml:2: (?s:.*)unknown key 'modle'")
    assert terminal.expect_end() == 2
    assert "\x1b[?2004h" not in terminal.seen


def test_no_color_leaves_out_colours(console: Console) -> None:
    terminal = console.open("chat", environment={"NO_COLOR": "1"})
    terminal.expect_prompt()
    terminal.type("run echo x")
    terminal.expect("Run run_command")
    terminal.type("y")
    terminal.expect("exit status 0")
    assert re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-9]|4[0-9]|9[0-7])(?:;[0-9;]*)?m", terminal.seen) is None


def test_plain_draws_nothing(console: Console) -> None:
    terminal = console.open("chat", "--plain")
    terminal.expect_prompt()
    terminal.type("run echo x")
    shown = terminal.expect("Run run_command")
    assert "--- run_command" in shown
    assert "╭" not in shown
