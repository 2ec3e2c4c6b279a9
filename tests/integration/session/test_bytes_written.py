"""What a session writes stays in proportion to what is new."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dex_agents.builtin_loop import (
    ModelOutputItem,
    ModelRequest,
    ScriptedModelReply,
    ScriptedToolCall,
    function_tool,
)
from dex_agents.wire.tool_calls import ToolEffect
from tests.integration.session.desk import ask, build_flow, serve

_ROUNDS = 150
_OUTPUT = "x" * 5_000


@pytest.mark.case("BR-050")
@pytest.mark.requirement("bytes-linear")
async def test_a_turn_of_many_tool_calls_writes_as_much_for_the_last_as_for_the_first(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    sizes: dict[int, int] = {}

    @function_tool(effect=ToolEffect.READ)
    async def look(n: int) -> str:
        """Look."""
        if n % 50 == 0:
            sizes[n] = _stored_bytes(database)
        return _OUTPUT

    def script(request: ModelRequest) -> ScriptedModelReply:
        answers = sum(isinstance(item, ModelOutputItem) for item in request.items)
        if answers < 4:
            return ScriptedModelReply(text="y" * 100_000)
        if answers <= 4 + _ROUNDS:
            return ScriptedModelReply(tool_calls=(ScriptedToolCall("look", {"n": answers - 4}),))
        return ScriptedModelReply(text="done")

    async with serve(database, build_flow([look], script, max_model_calls_per_turn=200)) as client:
        await client.start_session("s")
        for _ in range(4):
            await ask(client, "s", "tell me much")
        assert await client.send_user_message("s", "look often")
        progress = await client.wait_for_idle("s", timeout=100)
        assert progress.last_turn_outcome == "completed"
        assert len((await client.get_agent_snapshot("s")).tool_calls) == _ROUNDS + 1

    first, second, third = (sizes[n] - sizes[n - 50] for n in (50, 100, 150))
    print(f"bytes a round: {first // 50}, {second // 50}, {third // 50} for {len(_OUTPUT)} of output")
    assert third <= 1.25 * first
    assert third <= 50 * 10 * len(_OUTPUT)


def _stored_bytes(database: Path) -> int:
    """Return the bytes that the engine has stored, wherever they lie by now."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return (pages - free) * size
