from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.console import Console


@pytest.fixture
def console() -> Iterator[Console]:
    # Short: a socket's path has a limit.
    folder = Path(tempfile.mkdtemp(prefix="cli-"))
    opened = Console(folder)
    try:
        yield opened
    finally:
        opened.close()
        shutil.rmtree(folder)
