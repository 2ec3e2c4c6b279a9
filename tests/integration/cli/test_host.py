"""The host that terminals share: when it starts, what it outlives, when it ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

from dex_agents.session.state_diagrams import render_tool_call_diagram
from tests.integration.cli.console import BOUND, CTRL_C, Console, Terminal


def start_host(console: Console, linger: str) -> subprocess.Popen[str]:
    console.agents.mkdir(parents=True)
    console.config.write_text("model: demo\n")
    host = subprocess.Popen(
        [sys.executable, "-m", "dex_agents", "host", "--config", str(console.config), "--linger", linger],
        env=console.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert host.stdout is not None
    assert json.loads(host.stdout.readline()) == {"ready": True}
    return host


def begin_command(console: Console) -> tuple[Terminal, str]:
    """Run a command that says `begun` and waits for the pipe `go`; return its terminal and session."""
    os.mkfifo(console.work / "go")
    terminal = console.open("run", "--yes", "--json", "run touch begun; cat go; touch ended")
    console.wait_for_file("begun")
    listed = console.run("sessions", "--json")
    session_id: str = json.loads(listed.stdout)["session_id"]
    return terminal, session_id


def let_go(console: Console) -> None:
    """Let the command go on."""
    with (console.work / "go").open("w"):
        pass


def attach(console: Console) -> socket.socket:
    terminal = socket.socket(socket.AF_UNIX)
    terminal.connect(str(console.agents / "default.host.sock"))
    with terminal.makefile() as greeting:
        assert json.loads(greeting.readline())["server_address"].startswith("unix:")
    return terminal


def test_a_host_that_nobody_needs_ends(console: Console) -> None:
    with start_host(console, "0.05") as host:
        attach(console).close()
        assert host.wait(BOUND) == 0
    assert console.run("run", "list").returncode == 0


def test_a_host_stays_as_long_as_a_terminal_is_attached(console: Console) -> None:
    with start_host(console, "0.05") as host:
        with attach(console):
            for _ in range(3):
                assert console.run("sessions").returncode == 0
            assert host.poll() is None
        assert host.wait(BOUND) == 0


def test_a_host_stays_as_long_as_a_turn_is_at_work(console: Console) -> None:
    with start_host(console, "0.05") as host:
        with attach(console):
            terminal, session_id = begin_command(console)
        terminal.kill()
        assert console.run("show", session_id).returncode == 0
        assert host.poll() is None
        let_go(console)
        assert host.wait(BOUND) == 0
    assert (console.work / "ended").exists()


def test_terminals_that_start_together_share_one_host(console: Console) -> None:
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "dex_agents", "run", "list"],
            cwd=console.work,
            env=console.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    talks = [command.communicate(timeout=BOUND)[1] for command in commands]
    assert [command.returncode for command in commands] == [0] * 4, talks
    assert (console.agents / "default.log").read_text().count(" serving ") == 1
    assert len(console.run("sessions").stdout.splitlines()) == 4


def test_a_host_that_others_use_is_not_stopped(console: Console) -> None:
    terminal = console.open("chat")
    terminal.expect_prompt()
    terminal.type("list")
    terminal.expect("returned")
    refused = console.run("stop")
    assert refused.returncode == 4
    assert "1 other terminal" in refused.stderr


def test_a_turn_goes_on_when_its_terminal_is_killed(console: Console) -> None:
    terminal, session_id = begin_command(console)
    terminal.kill()
    let_go(console)
    assert console.run("run", "--resume", session_id, "list").returncode == 0
    assert (console.work / "ended").exists()
    assert "exit status 0" in console.run("show", session_id).stdout


def test_a_command_that_a_killed_host_ran_is_not_run_again_and_can_be_settled(console: Console) -> None:
    terminal, session_id = begin_command(console)
    (console.work / "begun").unlink()
    console.kill_host()
    terminal.expect("outcome_unknown")
    assert terminal.expect_end() == 0
    let_go(console)
    snapshot = json.loads(console.run("show", "--json", session_id).stdout)
    [call] = snapshot["tool_calls"]
    assert call["status"] == "outcome_unknown"
    assert not (console.work / "begun").exists()
    settle = ("settle", session_id, call["tool_call_id"], "succeeded", "it ran once")
    assert console.run(*settle).returncode == 0
    assert console.run(*settle).returncode == 4


def test_a_turn_is_steered_and_cancelled_from_another_terminal(console: Console) -> None:
    terminal, session_id = begin_command(console)
    assert console.run("steer", session_id, "list instead").returncode == 0
    assert console.run("cancel", session_id).returncode == 0
    assert terminal.expect_end() == 130
    assert console.run("cancel", session_id).returncode == 4
    assert not (console.work / "ended").exists()


def test_ctrl_c_cancels_the_turn_of_run(console: Console) -> None:
    terminal, _ = begin_command(console)
    terminal.press(CTRL_C)
    assert terminal.expect_end() == 130
    assert not (console.work / "ended").exists()


def test_the_graph_is_drawn_from_the_tables(console: Console) -> None:
    done = console.run("graph", "tool-calls")
    assert (done.returncode, done.stdout.rstrip()) == (0, render_tool_call_diagram().rstrip())
