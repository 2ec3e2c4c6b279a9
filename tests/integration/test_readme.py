"""The README's programs do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"


def _programs_with(text: str) -> list[str]:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if text in block]


def test_the_agent_of_the_readme_answers(tmp_path: Path) -> None:
    (program,) = _programs_with("asyncio.run")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "user | Where is A-17?",
        'tool | {"order_id": "A-17", "status": "shipped"}',
        'assistant | Here it is: {"order_id": "A-17", "status": "shipped"}',
    ]


def test_the_models_of_the_readme_can_be_made_without_a_key() -> None:
    (program,) = _programs_with("model_from_name")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
