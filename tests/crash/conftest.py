"""What crash tests share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from tests.crash.stage import Stage


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    """An engine process and a client; the test starts the Workers."""
    async with Stage.set_up(tmp_path) as stage:
        yield stage
