"""The commands with pipes: stdout is data, stderr is talk, the exit status says how it ended."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.cli.console import BOUND, Console


def test_run_writes_the_answer_and_nothing_else_to_stdout(console: Console) -> None:
    (console.work / "notes.md").write_text("remember the milk\n")
    done = console.run("run", "read notes.md")
    assert done.returncode == 0
    assert done.stdout.startswith("Let me do that.\n**read_file** returned:")
    assert "\x1b" not in done.stdout + done.stderr
    assert "--resume" in done.stderr


def test_run_with_json_writes_one_event_a_line_and_a_result(console: Console) -> None:
    done = console.run("run", "--json", "list")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "turn_started"
    assert "text_delta" in kinds
    assert "tool_call_completed" in kinds
    assert kinds[-1] == "result"
    assert lines[-1]["outcome"] == "completed"
    assert lines[-1]["text"].startswith("**list_files** returned")


def test_a_turn_that_waits_on_a_person_is_told_by_the_exit_status(console: Console) -> None:
    waiting = console.run("run", "--json", "run touch made")
    assert waiting.returncode == 3
    result = json.loads(waiting.stdout.splitlines()[-1])
    assert result["outcome"] == "waits"
    [interrupt] = result["interrupts"]
    assert interrupt["tool_name"] == "run_command"

    listed = json.loads(console.run("sessions", "--json").stdout)
    assert listed["session_id"] == result["session_id"]
    assert listed["interrupts"] == [interrupt]

    decided = console.run(
        "approve", result["session_id"], "--interrupt", interrupt["interrupt_id"],
        "--arguments", '{"command": "touch other"}',
    )  # fmt: skip
    assert decided.returncode == 0
    again = console.run("run", "--resume", result["session_id"], "list")
    assert "other" in again.stdout
    assert [file.name for file in console.work.iterdir()] == ["other"]


def test_arguments_that_do_not_fit_leave_the_question_open(console: Console) -> None:
    session_id = json.loads(console.run("run", "--json", "run touch made").stdout.splitlines()[-1])[
        "session_id"
    ]
    refused = console.run("approve", session_id, "--arguments", '{"commands": 1}')
    assert refused.returncode == 2
    assert "arguments" in refused.stderr
    assert console.run("reject", session_id).returncode == 0


def test_run_can_wait_until_somebody_decides_elsewhere(console: Console) -> None:
    terminal = console.open("run", "--wait", "--json", "run echo waited")
    terminal.expect('"interrupt_opened"')
    session_id = console.run("sessions", "--waiting").stdout.split()[0]
    assert console.run("approve", session_id).returncode == 0
    terminal.expect('"type": ?"result"')
    assert terminal.expect_end() == 0


def test_questions_are_answered_from_another_terminal(console: Console) -> None:
    waiting = console.run("run", "ask")
    assert waiting.returncode == 3
    session_id = console.run("sessions", "--waiting").stdout.split()[0]
    missing = console.run("answer", session_id, "colour=red")
    assert missing.returncode == 2
    assert "name" in missing.stderr
    assert console.run("answer", session_id, "colour=red", "name=Rosa").returncode == 0
    assert console.run("answer", session_id, "colour=red", "name=Rosa").returncode == 4
    assert console.run("run", "--resume", session_id, "list").returncode == 0
    assert "Rosa" in console.run("show", session_id).stdout


def test_a_message_comes_from_stdin(console: Console) -> None:
    done = console.run("run", "-", stdin="list\n")
    assert done.returncode == 0
    assert "list_files" in done.stdout


def test_each_line_of_a_piped_chat_is_a_message(console: Console) -> None:
    done = console.run("chat", stdin="list\nread missing.txt\n")
    assert done.returncode == 0
    assert done.stdout.index("list_files") < done.stdout.index("missing.txt: No such file")


def test_tools_do_not_leave_the_folder(console: Console) -> None:
    (console.home / "secret").write_text("do not show\n")
    (console.work / "link").symlink_to(console.home / "secret")
    for path in ("../home/secret", str(console.home / "secret"), "link", "~/secret"):
        done = console.run("run", f"read {path}")
        assert done.returncode == 0
        assert "leads out of the working folder" in done.stdout, path
        assert "do not show" not in done.stdout + done.stderr


def test_a_command_does_not_see_keys(console: Console) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dex_agents", "run", "--yes", "run env"],
        cwd=console.work,
        env={**console.environment(), "OPENAI_API_KEY": "sk-not-to-be-seen"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    assert "PATH=" in done.stdout
    assert "sk-not-to-be-seen" not in done.stdout + done.stderr
    for file in console.agents.iterdir():
        if file.is_file():
            assert b"sk-not-to-be-seen" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("model: demo\nmodle: demo\n", 2, "unknown key 'modle'"),
        ("model: demo\n\ncommand_timeout: soon\n", 3, "a whole number from 1 to 3600"),
        ("model: gpt\n", 1, "openai/NAME"),
        ("model: demo\ntools:\n  - read_file\n  - fly\n", 4, "'fly'"),
        ("model: demo\ninstructions: [\n", 3, "no YAML"),
        ("- model\n", 1, "key: value"),
    ],
)
def test_a_broken_configuration_is_told_with_its_line(
    console: Console, text: str, line: int, problem: str
) -> None:
    console.agents.mkdir(parents=True)
    console.config.write_text(text)
    done = console.run("sessions")
    assert done.returncode == 2
    assert f"default.yaml:{line}: " in done.stderr
    assert problem in done.stderr
    assert done.stdout == ""


def test_a_model_that_cannot_be_used_is_told_before_anything_begins(console: Console) -> None:
    done = console.run("run", "--model", "gpt", "hello")
    assert done.returncode == 2
    assert "openai/NAME" in done.stderr


def test_a_model_without_its_key_is_told_before_anything_begins(console: Console) -> None:
    done = console.run("run", "--model", "openai/some", "hello")
    assert done.returncode == 2
    assert "openai/some needs OPENAI_API_KEY" in done.stderr
    assert console.run("sessions").stdout == ""


def test_a_session_that_is_not_there_is_told(console: Console) -> None:
    done = console.run("show", "nowhere")
    assert done.returncode == 1
    assert "nowhere" in done.stderr


def test_stop_ends_the_host_and_the_next_command_starts_another(console: Console) -> None:
    assert console.run("run", "list").returncode == 0
    before = (console.agents / "default.db.lock").read_text()
    assert console.run("stop").returncode == 0
    assert len(console.run("sessions").stdout.splitlines()) == 1
    assert (console.agents / "default.db.lock").read_text() != before


def test_a_changed_configuration_takes_effect(console: Console) -> None:
    assert console.run("run", "list").returncode == 0
    console.config.write_text("tools: []\n")
    done = console.run("run", "list")
    assert done.returncode == 0
    assert "I am the demo model" in done.stdout.replace("*", "")


def test_agents_with_other_names_have_other_sessions(console: Console) -> None:
    config = console.work / "other.yaml"
    config.write_text("model: demo\n")
    assert console.run("run", "list").returncode == 0
    try:
        listed = console.run("sessions", "--config", str(config))
        assert listed.returncode == 0
        assert listed.stdout == ""
    finally:
        assert console.run("stop", "--config", str(config)).returncode == 0


def test_what_the_engine_and_the_version_need_is_always_there(console: Console) -> None:
    for arguments in (("--version",), ("version",), ("engine", "--help")):
        done = console.run(*arguments, without="cyclopts")
        assert done.returncode == 0, done.stderr
    missing = console.run("chat", without="cyclopts")
    assert missing.returncode == 2
    assert 'pip install "dex-agents-native[cli]"' in missing.stderr
