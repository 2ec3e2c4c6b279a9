"""Tools that are known at run time only: one for each note. Run `python -m examples.tool_source`."""

import asyncio
import tempfile

import dex_agents as agents
from dex_agents.builtin_loop import AgentDefinition, ModelRequest, create_builtin_agent_session_flow
from dex_agents.engine import LocalEngine
from dex_agents.testing import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall

NOTES: dict[str, str] = {}


class NoteSource:
    """Lists the notes before every model call; a call finds its note by the reference of its listing."""

    name = "notes"

    async def list_tools(self) -> list[agents.SourceTool]:
        """Return one tool for each note."""
        return [as_tool(note) for note in NOTES]

    async def execute_deferred_tool_call(self, call: agents.DeferredToolExecution) -> agents.ToolOutcome:
        """Return the text of a note."""
        if call.tool_source_reference not in NOTES:
            raise agents.ToolExecutionError("the note is gone")
        return agents.ToolExecutionResult(NOTES[call.tool_source_reference])


def as_tool(note: str) -> agents.SourceTool:
    schema, read, name = {"type": "object"}, agents.ToolEffect.READ, f"read_{note}"
    return agents.SourceTool(name=name, description="", parameters=schema, effect=read, reference=note)


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Read every note that is offered, then repeat what they say."""
    if results := ScriptedModelClient.tool_results(request):
        return ScriptedModelReply(text=" ".join(result.output for result in results))
    return ScriptedModelReply(tool_calls=tuple(ScriptedToolCall(tool.name) for tool in request.tools))


async def main(database: str) -> None:
    agent = AgentDefinition(name="a", model=ScriptedModelClient(reply), tool_sources=[NoteSource()])
    flow = create_builtin_agent_session_flow(agent, "Notes")
    async with (
        LocalEngine(database) as engine,
        agents.AgentWorker(flow, server_address=engine.server_address),
        agents.AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1")
        for name, text in {"rent": "Rent is due on Friday.", "tea": "Tea is in the tin."}.items():
            NOTES[name] = text
            await client.send_user_message("s1", "What is there?")
            await client.wait_for_idle("s1")
            print((await client.get_agent_snapshot("s1")).messages[-1].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
