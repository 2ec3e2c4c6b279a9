"""The command in a real terminal, with a home folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pexpect

from dex_agents.testing import poll_until

BOUND = 60.0
"""Seconds for anything that is waited for."""

CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_U = "\x15"

_TERMINAL = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
"""Nothing here answers when it is asked where the cursor is."""

_WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from dex_agents.cli.main import main
sys.exit(main())
"""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


class Console:
    """One user's machine: a home folder, a folder to work in, and terminals."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self._terminals: list[Terminal] = []

    @property
    def agents(self) -> Path:
        return self.home / ".dex" / "agents"

    @property
    def config(self) -> Path:
        return self.agents / "default.yaml"

    def open(
        self, *arguments: str, columns: int = 100, environment: Mapping[str, str] | None = None
    ) -> Terminal:
        """Open a terminal in which the command runs."""
        process: Any = cast("Any", pexpect).spawn(
            sys.executable,
            ["-m", "dex_agents", *arguments],
            cwd=str(self.work),
            env=self.environment({**_TERMINAL, **(environment or {})}),
            dimensions=(40, columns),
            timeout=BOUND,
            encoding="utf-8",
        )
        terminal = Terminal(process)
        self._terminals.append(terminal)
        return terminal

    def run(
        self, *arguments: str, stdin: str = "", without: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command with pipes, as if a package were not installed if one is named."""
        command = ["-m", "dex_agents"] if without is None else ["-c", _WITHOUT, without]
        with subprocess.Popen(
            [sys.executable, *command, *arguments],
            cwd=self.work,
            env=self.environment({"PYTHONFAULTHANDLER": "1"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                output, talk = process.communicate(stdin, timeout=BOUND)
            except subprocess.TimeoutExpired:
                # What it hung in is in its last words.
                process.send_signal(signal.SIGABRT)
                output, talk = process.communicate()
                raise AssertionError(f"{arguments} did not end\n{output}\n{talk}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, output, talk)

    def wait_for_file(self, name: str) -> None:
        """Wait until a command has made a file in the folder."""
        path = self.work / name
        asyncio.run(poll_until(path.exists, timeout=BOUND, awaited=name))

    def kill_host(self) -> None:
        """End the host with SIGKILL, if there is one."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int((self.agents / "default.db.lock").read_text()), signal.SIGKILL)

    def close(self) -> None:
        """Leave nothing running."""
        for terminal in self._terminals:
            terminal.kill()
        self.kill_host()

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        paths = os.pathsep.join(path for path in sys.path if path.endswith("python"))
        return {**kept, "LANG": "C.UTF-8", "HOME": str(self.home), "PYTHONPATH": paths, **(more or {})}


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.seen = ""

    def expect(self, pattern: str) -> str:
        """Wait for a text, and return everything from the last wait to its end, without escapes."""
        self.process.expect(pattern)
        shown = f"{self.process.before}{self.process.after}"
        self.seen += shown
        return _ESCAPE.sub("", shown)

    def expect_prompt(self) -> str:
        """Wait until the next message can be typed.

        The terminal is told to mark what is pasted, then the prompt of messages is drawn: no question, and
        not the line in which one types while a turn is at work.
        """
        return self.expect(r"\x1b\[\?2004h(?:\x1b\[[0-9;?]*[A-Za-z])*>")

    def type(self, text: str) -> None:
        """Type a text and the Enter key."""
        self.process.send(text + "\r")

    def press(self, key: str) -> None:
        self.process.send(key)

    def expect_end(self) -> int:
        """Wait until the command has ended, and return its exit status."""
        self.process.expect(pexpect.EOF)
        self.seen += self.process.before
        self.process.close()
        return int(self.process.exitstatus)

    def leave(self) -> int:
        """Leave with Ctrl-D."""
        self.press(CTRL_D)
        return self.expect_end()

    def kill(self) -> None:
        """End the command with SIGKILL."""
        self.process.close(force=True)
