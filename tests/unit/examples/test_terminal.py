from __future__ import annotations

import pytest

from examples.terminal import Terminal


def test_pieces_make_one_line_until_a_line_begins(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.piece("one ")
    terminal.piece("two")
    terminal.line("three", "heading")
    terminal.piece("four\n")
    terminal.line("five")
    terminal.end_line()
    assert capsys.readouterr().out == "one two\nthree\nfour\nfive\n"


def test_without_a_terminal_there_are_no_colours_and_no_questions(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.line("bad news", "bad")
    assert not terminal.is_terminal
    assert not terminal.is_interactive
    assert "\x1b" not in capsys.readouterr().out
