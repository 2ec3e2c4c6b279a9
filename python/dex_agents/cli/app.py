"""The commands and their options; each imports what it needs when it runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dex_agents.cli.exit_status import CANCELLED, DONE, FAILED, NOTHING_CHANGED, REFUSED
from dex_agents.errors import DexAgentsError, EngineError, InvalidInputError

try:
    from cyclopts import App, CycloptsError, Parameter
except ModuleNotFoundError as error:
    raise ImportError('this command needs more: pip install "dex-agents-native[cli]"') from error

if TYPE_CHECKING:
    from dex_agents.cli.opened_agent import OpenedAgent
    from dex_agents.cli.terminal import Terminal

__all__ = ["run_app"]

app = App(
    name="dex-agents",
    help="Durable AI agent sessions. Without a command: `chat`.",
    help_format="plaintext",
    version_flags=(),
    end_of_options_delimiter="--",
)


Switch = Annotated[bool, Parameter(negative=())]
Text = Annotated[str, Parameter(allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AgentChoice:
    """Which agent a command is about."""

    agent: Annotated[str | None, Parameter(name=("--agent", "-a"))] = None
    """Name of the agent: its files are ~/.dex/agents/NAME.*"""

    config: Annotated[Path | None, Parameter(name=("--config", "-c"))] = None
    """A configuration file elsewhere; the agent's other files are beside it."""

    plain: Switch = False
    """Draw and style nothing."""


DEFAULT_CHOICE = AgentChoice()


def run_app(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    try:
        status: Any = app(list(arguments), exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return REFUSED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("dex-agents: interrupted", file=sys.stderr)
        return CANCELLED
    except BrokenPipeError:
        # Whoever read the output is gone, and Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (InvalidInputError, EngineError) as error:
        return _fail(error, REFUSED)
    except DexAgentsError as error:
        return _fail(error, REFUSED if type(error).__name__ == "ConfigError" else FAILED)
    return status if isinstance(status, int) else DONE


def _fail(error: BaseException, status: int) -> int:
    from dex_agents.cli.shown_text import spell_out_controls

    print(f"dex-agents: {spell_out_controls(str(error))}", file=sys.stderr)
    return status


@app.default
@app.command
def chat(
    *,
    resume: Annotated[str | None, Parameter(name=("--resume", "-r"))] = None,
    model: Annotated[str | None, Parameter(name=("--model", "-m"))] = None,
    folder: Path | None = None,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=())] = False,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Talk to an agent; without a key, to a scripted demo model.

    Args:
        resume: Go on with this session.
        model: demo, openai/NAME, anthropic/NAME or openai-compatible/NAME@URL; by default the configured one.
        folder: Where the tools of a new session work; by default the present folder.
        yes: Approve every tool call without asking.
        choice: Which agent.
    """
    from dex_agents.cli.chat import ChatOptions
    from dex_agents.cli.chat import chat as run_chat

    files, config = _load(choice)
    options = ChatOptions(session_id=resume, model=model, folder=folder, plain=choice.plain, yes=yes)
    return asyncio.run(run_chat(files, config, options))


@app.command
def run(
    message: Text,
    *,
    resume: Annotated[str | None, Parameter(name=("--resume", "-r"))] = None,
    model: Annotated[str | None, Parameter(name=("--model", "-m"))] = None,
    folder: Path | None = None,
    image: Annotated[list[Path] | None, Parameter(name=("--image", "-i"), negative=())] = None,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=())] = False,
    wait: Switch = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Send one message and follow its turn: the answer on stdout, everything else on stderr.

    The exit status is 0 when the turn was completed, 1 when it failed, 2 when nothing was begun, 3 when it
    waits on a person who cannot be asked here, 130 when it was cancelled.

    Args:
        message: The message; - reads it from stdin.
        resume: Send it to this session; by default a new one.
        model: demo, openai/NAME, anthropic/NAME or openai-compatible/NAME@URL; by default the configured one.
        folder: Where the tools of a new session work; by default the present folder.
        image: An image file to show with the message; give it again for each further one.
        yes: Approve every tool call without asking.
        wait: Wait until another terminal has decided what the turn waits on.
        as_json: Write each event as a line of JSON, and a result as the last line.
        choice: Which agent.
    """
    from dex_agents.cli.chat import ChatOptions, run_message

    files, config = _load(choice)
    options = ChatOptions(
        session_id=resume,
        model=model,
        folder=folder,
        plain=choice.plain,
        images=tuple(image or ()),
        yes=yes,
        json=as_json,
        waits=wait,
    )
    text = sys.stdin.read() if message == "-" else message
    return asyncio.run(run_message(files, config, options, text))


@app.command
def sessions(
    *,
    waiting: Switch = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """List the sessions of an agent, with what each waits on.

    Args:
        waiting: Only those that wait on a person.
        as_json: One JSON object a line.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import list_sessions

        return await list_sessions(agent, terminal, waiting=waiting, as_json=as_json)

    return _with_agent(choice, work)


@app.command
def show(
    session: str,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Show what a session holds.

    Args:
        session: The session.
        as_json: Its whole snapshot as one JSON object.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import show_session

        return await show_session(agent, terminal, session, as_json=as_json)

    return _with_agent(choice, work)


@app.command
def approve(
    session: str,
    *,
    interrupt: str | None = None,
    arguments: str | None = None,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Approve a tool call that a session waits on.

    Args:
        session: The session.
        interrupt: Which one, when there are several; see `sessions`.
        arguments: JSON text of an object to run instead.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import decide_interrupt

        return await decide_interrupt(
            agent, terminal, session, "approve", interrupt_id=interrupt, arguments=arguments
        )

    return _with_agent(choice, work)


@app.command
def reject(
    session: str,
    reason: Text | None = None,
    *,
    interrupt: str | None = None,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Reject a tool call that a session waits on.

    Args:
        session: The session.
        reason: What the model is to read.
        interrupt: Which one, when there are several; see `sessions`.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import decide_interrupt

        return await decide_interrupt(
            agent, terminal, session, "reject", interrupt_id=interrupt, reason=reason
        )

    return _with_agent(choice, work)


@app.command
def answer(
    session: str,
    *answers: Text,
    interrupt: str | None = None,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Answer what a session asks.

    Args:
        session: The session.
        answers: ID=TEXT for each question, again for another answer; TEXT alone when there is one question.
        interrupt: Which questions, when several calls ask; see `sessions`.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import answer_questions

        return await answer_questions(agent, terminal, session, answers, interrupt_id=interrupt)

    return _with_agent(choice, work)


@app.command
def steer(session: str, message: Text, *, choice: AgentChoice = DEFAULT_CHOICE) -> int:
    """Send a message that joins the running turn before its next model call.

    Args:
        session: The session.
        message: The message.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import steer_turn

        return await steer_turn(agent, terminal, session, message)

    return _with_agent(choice, work)


@app.command
def cancel(session: str, *, choice: AgentChoice = DEFAULT_CHOICE) -> int:
    """Cancel the running turn of a session.

    Args:
        session: The session.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import cancel_turn

        return await cancel_turn(agent, terminal, session)

    return _with_agent(choice, work)


@app.command
def settle(
    session: str,
    tool_call: str,
    outcome: Literal["succeeded", "failed"],
    output: Text,
    *,
    choice: AgentChoice = DEFAULT_CHOICE,
) -> int:
    """Say what became of a tool call whose outcome is unknown.

    Args:
        session: The session.
        tool_call: The call; see `show --json`.
        outcome: What was found out.
        output: What the model is to read.
        choice: Which agent.
    """

    async def work(agent: OpenedAgent, terminal: Terminal) -> int:
        from dex_agents.cli.session_commands import settle_outcome

        return await settle_outcome(agent, terminal, session, tool_call, outcome=outcome, output=output)

    return _with_agent(choice, work)


@app.command
def stop(*, choice: AgentChoice = DEFAULT_CHOICE) -> int:
    """End the host of an agent, which goes on for a minute after the last terminal left."""
    from dex_agents.cli.host_link import retire_host

    files, _ = _load(choice)
    kept = asyncio.run(retire_host(files))
    if kept is not None:
        print(f"dex-agents: the host goes on: {kept}", file=sys.stderr)
        return NOTHING_CHANGED
    return DONE


@app.command
def graph(table: Literal["all", "turns", "tool-calls", "interrupts", "steps"] = "all") -> int:
    """Draw what a session, a turn and a tool call can go through, as Mermaid diagrams.

    Args:
        table: Which diagram; by default a page with all of them.
    """
    from dex_agents.cli.graph import render_graph

    print(render_graph(table))
    return DONE


@app.command
def engine() -> None:
    """Run the local engine by itself; see dex-agents engine --help."""


@app.command
def version() -> None:
    """Print the version."""


app.register_install_completion_command()  # pyright: ignore[reportUnknownMemberType]


def _load(choice: AgentChoice) -> Any:
    from dex_agents.cli.agent_files import AgentFiles
    from dex_agents.cli.config import load_or_create_config

    files = AgentFiles.locate(choice.agent, choice.config)
    config, created = load_or_create_config(files)
    if created:
        print(f"Made {files.config}: it says what the agent is.", file=sys.stderr)
    return files, config


def _with_agent(choice: AgentChoice, work: Callable[[OpenedAgent, Terminal], Awaitable[int]]) -> int:
    files, config = _load(choice)

    async def open_and_work() -> int:
        from dex_agents.cli.opened_agent import open_agent
        from dex_agents.cli.terminal import Terminal

        async with open_agent(files, config) as agent:
            return await work(agent, Terminal(plain=choice.plain))

    opened: Coroutine[Any, Any, int] = open_and_work()
    return asyncio.run(opened)
