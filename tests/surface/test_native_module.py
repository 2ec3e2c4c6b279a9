"""The extension as the rest of the house sees it: one version, one kind of importer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dex_agents
from dex_agents import _native

PACKAGE = Path(dex_agents.__file__).parent
SEAMS = {
    "codecs/json_text.py",
    "media/image_check.py",
    "builtin_loop/token_estimate.py",
    "ui_stream/ui_frames.py",
}


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_extension_is_of_the_version_of_the_package() -> None:
    assert _native.__version__ == dex_agents.__version__


def test_only_the_seams_import_the_extension() -> None:
    importers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "dex_agents._native" in imported_modules(path)
    }
    assert "codecs/json_text.py" in importers
    assert importers <= SEAMS
