"""Every requirement is proved by a test, and every test that names one names one that exists."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def _listed() -> list[str]:
    text = (_ROOT / "conformance" / "requirements.toml").read_text(encoding="utf-8")
    return [entry["id"] for entry in tomllib.loads(text)["requirement"]]


def _named_by_tests() -> Iterator[str]:
    for path in sorted((_ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for decorator in node.decorator_list:
                if (
                    isinstance(decorator, ast.Call)
                    and ast.unparse(decorator.func) == "pytest.mark.requirement"
                ):
                    (argument,) = decorator.args
                    yield ast.literal_eval(argument)


def test_every_requirement_is_proved_and_every_proof_is_listed() -> None:
    listed = _listed()
    assert len(listed) == len(set(listed))
    assert set(_named_by_tests()) == set(listed)
