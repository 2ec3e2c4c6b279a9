"""What a simulated session has committed and written, and what can be seen of it at any moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from dex_agents.builtin_loop import ModelInputItem
from dex_agents.session.state import SessionChange, SessionRules, StartToolCalls, ToolStart, TurnView
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.events import (
    AgentEvent,
)
from dex_agents.wire.interrupts import AgentInterrupt, AgentQuestion
from dex_agents.wire.messages import AgentMessage, QueuedMessage
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.sessions import AgentTurnState, SessionRecord, SessionStatus
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import AgentToolCall

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BUILT_IN_TOOLS = frozenset({"ask_user", "durable_wait", "write_todos"})
RULES = SessionRules(built_in_tools=BUILT_IN_TOOLS, interrupt_deadline=timedelta(hours=1))
QUESTIONS = (AgentQuestion("q", "Which one?"),)
PROVIDER, API = "provider", "api"


@dataclass(frozen=True)
class Attempt:
    """A tool Step that runs."""

    step: str
    number: int


@dataclass(frozen=True)
class Lost:
    """Attempts of a Step that died: after how many of its events each."""

    after_events: tuple[int, ...] = ()


NOTHING_LOST = Lost()


@dataclass
class SimulatedStore:
    """A session as committed, its Channels, its event Stream, and who waits or runs."""

    record: SessionRecord = field(default_factory=lambda: SessionRecord(started_at=NOW))
    status: SessionStatus = "idle"
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    calls: dict[str, AgentToolCall] = field(default_factory=dict[str, AgentToolCall])
    interrupts: dict[str, AgentInterrupt] = field(default_factory=dict[str, AgentInterrupt])
    plan: AgentPlan | None = None
    summary: ContextSummary | None = None
    settings_revision: int = 0
    inbox: list[QueuedMessage] = field(default_factory=list[QueuedMessage])
    steering: list[QueuedMessage] = field(default_factory=list[QueuedMessage])
    news: list[AgentToolCall] = field(default_factory=list[AgentToolCall])
    is_cancelling: bool = False
    is_closing: bool = False
    is_beginning: bool = False

    starts: dict[str, ToolStart] = field(default_factory=dict[str, ToolStart])
    decisions: dict[str, ToolDecision] = field(default_factory=dict[str, ToolDecision])
    earlier: dict[str, str | None] = field(default_factory=dict[str, str | None])
    running: dict[str, Attempt] = field(default_factory=dict[str, Attempt])

    stream: list[AgentEvent] = field(default_factory=list[AgentEvent])
    accepted: list[str] = field(default_factory=list[str])
    requests: list[tuple[ModelInputItem, ...]] = field(default_factory=list[tuple[ModelInputItem, ...]])
    snapshots: list[tuple[AgentSnapshot, int]] = field(default_factory=list[tuple[AgentSnapshot, int]])
    _steps: int = 0
    _call_steps: dict[str, str] = field(default_factory=dict[str, str])

    # --- What can be seen ---------------------------------------------------------------------------

    @property
    def turn(self) -> AgentTurnState | None:
        return self.record.turn

    @property
    def view(self) -> TurnView:
        turn = self.record.turn
        assert turn is not None
        covered = self.record.covered_through
        messages = [message for message in self.messages if message.sequence > covered]
        return TurnView(
            record=self.record,
            turn=turn,
            messages=messages,
            tool_calls=[self.calls[one] for one in turn.tool_call_ids],
            summary=self.summary,
            chunks=tuple(message.sequence for message in messages),
            plan=self.plan,
        )

    @property
    def may_think(self) -> bool:
        if self.turn is None or self.is_cancelling:
            return False
        return all(call.is_final for call in self.view.tool_calls)

    def open_calls(self, *statuses: str) -> list[str]:
        if self.turn is None or self.is_cancelling:
            return []
        return [one.tool_call_id for one in self.view.tool_calls if one.status in statuses]

    def snapshot(self) -> AgentSnapshot:
        turn = self.record.turn
        return AgentSnapshot(
            session_id="s",
            status="closed" if self.status == "closed" else "idle" if turn is None else "running",
            turn_count=self.record.turn_count,
            messages=tuple(self.messages),
            tool_calls=tuple(self.calls.values()),
            interrupts=tuple(self.interrupts.values()),
            queued_messages=(*self.steering, *self.inbox),
            usage=self.record.usage,
            started_at=NOW,
            turn_id=None if turn is None else turn.turn_id,
            last_turn_outcome=self.record.last_turn_outcome,
            last_turn_error=self.record.last_turn_error,
            plan=self.plan,
            context_summary=self.summary,
            response_index=0 if turn is None else turn.response_index,
            settings_revision=self.record.settings_revision,
        )

    def look(self) -> None:
        """Take a snapshot, and the place in the Stream where a client goes on from it."""
        snapshot = self.snapshot()
        held = EventFilter(snapshot)
        place = len(self.stream)
        while place > 0 and not held.ends_what_is_held(self.stream[place - 1]):
            place -= 1
        self.snapshots.append((snapshot, place))

    # --- Writing ------------------------------------------------------------------------------------

    def _perform(
        self,
        step: str,
        events: Sequence[AgentEvent],
        commit: Callable[[], None] | None,
        lost: Lost = NOTHING_LOST,
        response_index: int = 0,
    ) -> None:
        self._steps += 1
        turn_id = None if self.turn is None else self.turn.turn_id
        number = 0
        for cut in lost.after_events:
            number += 1
            self._write(Attempt(f"{step}-{self._steps}", number), events[:cut], turn_id, response_index)
            self.look()
        if commit is not None:
            self._write(Attempt(f"{step}-{self._steps}", number + 1), events, turn_id, response_index)
            self.look()
            commit()
            self.look()

    def _write(
        self, attempt: Attempt, events: Sequence[AgentEvent], turn_id: str | None, response_index: int = 0
    ) -> None:
        self.stream += [
            msgspec.structs.replace(
                event,
                seq=seq,
                step=event.step or attempt.step,
                attempt=event.attempt + attempt.number if event.step else attempt.number,
                turn_id=event.turn_id or turn_id,
                response_index=event.response_index or (0 if event.step else response_index),
            )
            for seq, event in enumerate(events, 1)
        ]

    def _commit(self, change: SessionChange) -> None:
        self.is_beginning = False
        self.record = change.record
        self.status = change.status
        self.messages += change.new_messages
        for call in change.tool_calls:
            self.calls[call.tool_call_id] = call
        for one in change.opened_interrupts:
            self.interrupts[one.interrupt_id] = one
        for identifier in change.closed_interrupts:
            self.interrupts.pop(identifier, None)
        if change.plan is not None:
            self.plan = change.plan
        if change.context_summary is not None:
            self.summary = change.context_summary
        if isinstance(change.next_step, StartToolCalls):
            self.starts |= {start.tool_call.tool_call_id: start for start in change.next_step.starts}
        if change.ends_turn:
            self.is_cancelling = False
            for things in (self.starts, self.decisions, self.earlier, self.running):
                things.clear()
