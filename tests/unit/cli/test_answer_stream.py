from __future__ import annotations

import io

import pytest
from rich.console import Console

from dex_agents.cli.answer_stream import MarkdownAnswer, find_finished_blocks
from dex_agents.cli.terminal import Terminal

TEXT = """\
# Title

A paragraph
of two lines.

- one

- two

  more of two

After the list.

```python
a = 1

b = 2
```

1. first
2. second

| a | b |
| - | - |
| 1 | 2 |
"""


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("one\n", ""),
        ("one\n\n", ""),
        ("one\n\ntwo", "one\n\n"),
        ("```\na\n\nb\n", ""),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("- a\n\n- b\n", ""),
        ("- a\n\n  b\n", ""),
        ("- a\n\nb\n", "- a\n\n"),
        ("- a\n\nb", ""),
    ],
)
def test_only_what_cannot_change_any_more_is_finished(text: str, finished: str) -> None:
    assert text[: find_finished_blocks(text)] == finished


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_every_word_is_drawn_once_however_the_text_arrives(size: int) -> None:
    drawn = io.StringIO()
    answer = MarkdownAnswer(Terminal(data_console=Console(file=drawn, width=60, force_terminal=False)))
    for start in range(0, len(TEXT), size):
        answer.add(TEXT[start : start + size])
    answer.end()
    shown = drawn.getvalue()
    for word in (
        "Title",
        "paragraph",
        "one",
        "more of two",
        "After the list.",
        "a = 1",
        "b = 2",
        "first",
        "second",
    ):
        assert shown.count(word) == 1, (word, shown)


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    drawn = io.StringIO()
    answer = MarkdownAnswer(Terminal(data_console=Console(file=drawn, width=60, force_terminal=False)))
    answer.add("a\x1b]0;title\x07b\u202ec")
    answer.end()
    assert drawn.getvalue().strip() == "a\\x1b]0;title\\x07b\\u202ec"
