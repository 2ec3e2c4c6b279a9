"""A person shows an image, and a tool returns another. Run `python -m examples.images`."""

import asyncio
import struct
import tempfile
import zlib
from pathlib import Path

from dex_agents import (
    AgentSessionClient,
    AgentUserMessage,
    AgentWorker,
    LocalDirectoryMediaStore,
    ToolEffect,
)
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionToolResult,
    ModelRequest,
    ScriptedModelClient,
    ScriptedModelReply,
    ScriptedToolCall,
    create_builtin_agent_session_flow,
    function_tool,
    function_tool_result,
)
from dex_agents.engine import LocalEngine


def build_square(red: int, green: int, blue: int) -> bytes:
    """Return a PNG of four pixels of one colour."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header, row = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0), bytes([0, *(red, green, blue) * 2])
    chunks = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(row * 2)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Ask for a drawing first, then say what is to be seen."""
    if len(request.items) == 1:
        return ScriptedModelReply(tool_calls=(ScriptedToolCall("draw", {}),))
    return ScriptedModelReply(text=f"I see {len(request.image_data)} images.")


async def main(folder: Path) -> None:
    store = LocalDirectoryMediaStore(folder / "images")

    @function_tool(effect=ToolEffect.READ)
    async def draw() -> FunctionToolResult:
        """Draw something blue."""
        return function_tool_result("a blue square", images=[await store.put_image(build_square(0, 0, 255))])

    agent = AgentDefinition(name="critic", model=ScriptedModelClient(reply), tools=[draw], media_store=store)
    flow = create_builtin_agent_session_flow(agent, "Critic")
    async with (
        LocalEngine(folder / "agents.db") as engine,
        AgentWorker(flow, server_address=engine.server_address),
        AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        red = await store.put_image(build_square(255, 0, 0))
        await client.start_session("s", first_message=AgentUserMessage("Like this?", images=(red,)))
        await client.wait_for_idle("s")
        for message in (await client.get_agent_snapshot("s")).messages:
            shown = "".join(f" [{image.mime_type}]" for image in message.images)
            if message.text or message.tool_output:
                print(f"{message.role}: {message.text or message.tool_output}{shown}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
