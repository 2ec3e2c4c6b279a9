"""The model asks with `ask_user`, and a tool asks before it books. Run `python -m examples.questions`."""

import asyncio
import tempfile

import dex_agents
from dex_agents.builtin_loop import AgentDefinition, ModelRequest, ToolCallContext, function_tool
from dex_agents.builtin_loop.flow import create_builtin_agent_session_flow
from dex_agents.engine import LocalEngine
from dex_agents.testing import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall

ANSWERS = {"city": "Turin", "class": "second"}
"""What the person at the keyboard would type."""


@function_tool(effect=dex_agents.ToolEffect.IDEMPOTENT_WRITE)
async def book_train(to: str, context: ToolCallContext) -> str | dex_agents.ToolInputRequested:
    """Book a seat."""
    if "class" not in context.answers:
        question = dex_agents.AgentQuestion("class", f"Which class to {to}?")
        return dex_agents.ToolInputRequested((question,))
    # The next run begins at the top again: what comes before a question has to be safe to repeat.
    return f"a {context.answers['class']} class seat to {to}"


def reply(request: ModelRequest) -> ScriptedModelReply:
    """Ask where to go, book, then say what was booked."""
    results = ScriptedModelClient.tool_results(request)
    if not results:
        questions = [{"id": "city", "question": "Where do you want to go?"}]
        return ScriptedModelReply(tool_calls=(ScriptedToolCall("ask_user", {"questions": questions}),))
    if len(results) == 1:
        city = "Turin" if "Turin" in results[0].output else "Rome"
        return ScriptedModelReply(tool_calls=(ScriptedToolCall("book_train", {"to": city}),))
    return ScriptedModelReply(text=f"Booked: {results[1].output}.")


async def main(database: str) -> None:
    model, asking = ScriptedModelClient(reply), ["ask_user"]
    agent = AgentDefinition(name="travel", model=model, tools=[book_train], built_in_tools=asking)
    flow = create_builtin_agent_session_flow(agent, "Travel")
    async with (
        LocalEngine(database) as engine,
        dex_agents.AgentWorker(flow, server_address=engine.server_address),
        dex_agents.AgentSessionClient.connect(flow, server_address=engine.server_address) as client,
    ):
        await client.start_session("s1", first_message="Book me a train.")
        while interrupts := (await client.wait_for_attention("s1")).interrupts:
            for interrupt in interrupts:
                print(*(question.question for question in interrupt.questions))
                answers = {question.id: ANSWERS[question.id] for question in interrupt.questions}
                await client.answer_question("s1", interrupt.interrupt_id, answers)
        print((await client.get_agent_snapshot("s1")).messages[-1].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/agents.db"))
