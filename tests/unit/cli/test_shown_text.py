from __future__ import annotations

import pytest

from dex_agents.cli.shown_text import cut_lines, describe_arguments, spell_out_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a\\x0db"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("é 漢 🙂", "é 漢 🙂"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert spell_out_controls(text) == shown


def test_arguments_are_shown_as_json_or_as_they_are() -> None:
    assert describe_arguments('{"a":"é\\u001b"}', indent=None) == '{"a": "é\\u001b"}'
    assert describe_arguments("{broken\x1b") == "{broken\\x1b"


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert cut_lines("a\nb\nc\n", 2) == "a\nb\n…"
    assert cut_lines("a\nb\n", 2) == "a\nb"
    assert cut_lines("abcdef", 5, 3) == "abc\n…"
