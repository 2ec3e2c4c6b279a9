"""What a person sees of a session's events: the answer on stdout, tools and the rest on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dex_agents.cli.answer_stream import AnswerStream
from dex_agents.cli.shown_text import cut_lines, describe_arguments, describe_image, spell_out_controls
from dex_agents.cli.terminal import Style, Terminal
from dex_agents.wire.events import (
    AgentEvent,
    ContextCompacted,
    InterruptClosed,
    ModelCompleted,
    ModelStarted,
    PlanUpdated,
    TextDelta,
    ToolCallCompleted,
    ToolCallProgress,
    ToolCallStarted,
    TurnCancelled,
    TurnCompletedEvent,
    TurnFailed,
    TurnStarted,
)
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import AgentToolCall, ToolCallStatus

__all__ = ["EventView"]

_OUTPUT_LINES: Final = 8
_MARKS: Final[dict[ToolCallStatus, tuple[str, Style]]] = {
    "succeeded": ("done", "good"),
    "failed": ("failed", "bad"),
    "rejected": ("rejected", "bad"),
    "not_run": ("not run", "quiet"),
    "outcome_unknown": ("OUTCOME UNKNOWN", "bad"),
}
_TODO_MARKS: Final = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class EventView:
    """Shows events in the order in which they come.

    Attributes:
        ended_turn: The latest turn whose end was shown.
        shown_interrupts: IDs of interrupts that were shown.
    """

    def __init__(self, terminal: Terminal, answer: AnswerStream) -> None:
        self._terminal = terminal
        self._answer = answer
        self._streamed = False
        self._attempts: dict[str, int] = {}
        self.ended_turn: str | None = None
        self.shown_interrupts: set[str] = set()

    def show(self, event: AgentEvent) -> None:
        """Show one event."""
        match event:
            case TurnStarted():
                self._streamed = False
            case ModelStarted():
                self.end_answer()
                if event.attempt > self._attempts.get(event.step, event.attempt):
                    self._terminal.say("(the model call was interrupted and is made again)", "quiet")
                self._attempts[event.step] = event.attempt
                self._streamed = False
            case TextDelta():
                self._streamed = True
                self._answer.add(event.text)
            case ModelCompleted():
                if event.text is not None and event.text.strip():
                    self.end_answer()
                    if self._streamed:
                        self._terminal.say("(the answer as it is kept:)", "quiet")
                    self._answer.add(event.text)
                self.end_answer()
            case ToolCallStarted():
                self.end_answer()
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                self._terminal.say(f"  {event.tool_name} runs{again}", "quiet")
            case ToolCallProgress():
                self._terminal.say(f"  {event.text}", "quiet")
            case ToolCallCompleted():
                self.end_answer()
                self.show_tool_call(event.tool_call)
            case InterruptClosed():
                self._show_closed(event)
            case PlanUpdated():
                self.end_answer()
                self.show_plan(event.plan)
            case ContextCompacted():
                self._terminal.say("(earlier messages were summarised)", "quiet")
            case TurnCompletedEvent() | TurnCancelled() | TurnFailed():
                self.end_answer()
                self.ended_turn = event.turn_id
                if isinstance(event, TurnFailed):
                    self._terminal.say(f"The turn failed: {event.error}", "bad")
                elif isinstance(event, TurnCancelled):
                    self._terminal.say("The turn was cancelled.", "quiet")
            case _:
                pass

    def end_answer(self) -> None:
        """Finish what is being written."""
        self._answer.end()

    def show_tool_call(self, call: AgentToolCall) -> None:
        """Show a call that has ended: what ran, how it ended, and the beginning of what it gave."""
        mark, style = _MARKS.get(call.status, (call.status, "quiet"))
        arguments = cut_lines(describe_arguments(call.arguments_to_run, indent=None), 1, 160)
        self._terminal.say(f"* {call.tool_name} {arguments}: {mark}", style)
        text = call.output if call.status == "succeeded" else call.error
        if text and call.tool_name not in ("ask_user", "write_todos"):
            for line in cut_lines(text, _OUTPUT_LINES).split("\n"):
                self._terminal.say(f"  {line}", "quiet")
        self.show_images(call.images)

    def show_images(self, images: Sequence[AgentImageReference], *, first: int = 1) -> None:
        """Show of which type and size images are."""
        for number, image in enumerate(images, first):
            self._terminal.say(f"  {describe_image(number, image)}", "quiet")

    def show_interrupt(self, interrupt: AgentInterrupt) -> None:
        """Show what a person is asked, once."""
        if interrupt.interrupt_id in self.shown_interrupts:
            return
        self.shown_interrupts.add(interrupt.interrupt_id)
        self.end_answer()
        if interrupt.kind == "question":
            return
        shown = interrupt.effective_arguments or interrupt.arguments
        lines = [describe_arguments(shown)]
        if interrupt.effective_arguments and interrupt.effective_arguments != interrupt.arguments:
            lines += ["as the model wrote it:", spell_out_controls(interrupt.arguments)]
        title = f"{interrupt.tool_name} ({interrupt.effect.value})"
        self._draw_card(title, "\n".join(lines))

    def show_plan(self, plan: AgentPlan) -> None:
        """Show the plan."""
        self._terminal.say(f"Plan {plan.revision} ({plan.status})", "heading")
        for todo in plan.todos:
            self._terminal.say(f"  {_TODO_MARKS[todo.status]} {todo.task}")

    def show_transcript(self, snapshot: AgentSnapshot, *, turns: int | None = None) -> None:
        """Show what a session holds.

        Args:
            snapshot: The session.
            turns: Only the last so many turns; `None` for all.
        """
        first = 0 if turns is None else max(0, snapshot.turn_count - turns)
        calls = {call.tool_call_id: call for call in snapshot.tool_calls}
        for message in snapshot.messages:
            if int(message.turn_id.removeprefix("turn-")) <= first and turns is not None:
                continue
            if message.role == "user":
                self._terminal.say(f"> {message.text or ''}", "heading")
                self.show_images(message.images)
            elif message.tool_call_id is not None:
                call = calls.get(message.tool_call_id)
                if call is not None:
                    self.show_tool_call(call)
            elif message.text:
                self._answer.add(message.text)
                self._answer.end()

    def _show_closed(self, event: InterruptClosed) -> None:
        if event.interrupt_id not in self.shown_interrupts:
            return
        if event.decision == "approve":
            edited = event.tool_call is not None and event.tool_call.approval is not None
            changed = " with changed arguments" if edited and _was_edited(event.tool_call) else ""
            self._terminal.say(f"Approved{changed}.", "good")
        elif event.decision == "reject":
            self._terminal.say("Rejected.", "bad")

    def _draw_card(self, title: str, text: str) -> None:
        if self._terminal.is_plain:
            self._terminal.say(f"--- {title}")
            for line in text.split("\n"):
                self._terminal.say(f"| {line}")
            return
        from rich.panel import Panel
        from rich.text import Text

        self._terminal.draw(
            Panel(Text(text), title=Text(title), title_align="left", border_style="yellow", padding=(0, 1))
        )


def _was_edited(call: AgentToolCall | None) -> bool:
    return call is not None and call.approval is not None and call.approval.edited
