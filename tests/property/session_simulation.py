"""A session without an engine: the Steps' part played plainly, over the real transitions.

Each method is one Step or one command. A Step writes its events, then commits; attempts before may be lost
after any of their events. After each of these moments a snapshot can be taken, as a client would get it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop import ModelInputItem
from dex_agents.builtin_loop.input_items import (
    build_input_items,
    build_model_output_message,
    build_tool_result_message,
    build_user_text_message,
    find_open_calls,
)
from dex_agents.builtin_loop.stored_items import StoredModelOutput, StoredToolCall
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    DeferredToolCall,
    ToolCallsRequested,
    ToolReconciliation,
    TurnCompleted,
    TurnContinued,
)
from dex_agents.session.state import SessionChange, SessionRules, StartToolCalls, ToolStart, TurnView
from dex_agents.session.transitions.closing import close_session
from dex_agents.session.transitions.context import compact_context
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.session.transitions.interrupts import (
    InterruptEnd,
    build_interrupt,
    end_approval,
    end_question,
    end_wait,
    interrupt_id,
    open_interrupt_id,
    require_answers,
)
from dex_agents.session.transitions.joining import JoiningMessage, number_joined
from dex_agents.session.transitions.plans import approve_plan
from dex_agents.session.transitions.tool_call_moves import move_tool_call
from dex_agents.session.transitions.tool_calls import (
    cancel_tool_call,
    exhausted_tool_call,
    fail_tool_call,
    give_up_task,
    lose_tool_call,
    miss_poll,
    reconcile_tool_call,
    release_tool_call,
    settle_tool_call,
    skip_tool_call,
    succeed_tool_call,
)
from dex_agents.session.transitions.turns import (
    begin_turn,
    cancel_turn,
    cancelled_tool_calls,
    decide_model_outcome,
    describe_beginning,
    fail_turn,
    first_tool_call_number,
    used_tool_call_ids,
    with_settings_revision,
)
from dex_agents.tools.results import describe_tool_result
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.events import (
    AgentEvent,
    InterruptClosed,
    InterruptOpened,
    ModelStarted,
    SettingsUpdated,
    TextDelta,
    ToolCallCompleted,
    ToolCallProgress,
    ToolCallStarted,
    UserMessageEvent,
)
from dex_agents.wire.interrupts import AgentInterrupt, AgentQuestion
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, QueuedMessage
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.sessions import AgentTurnState, SessionRecord, SessionStatus
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.snapshots import AgentSnapshot
from dex_agents.wire.tool_calls import AgentToolCall, ToolApproval
from dex_agents.wire.usage import AgentUsage

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
class SimulatedSession:
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

    # --- Commands -----------------------------------------------------------------------------------

    def send(self, text: str, *, plan_mode: bool = False, approved_plan: int | None = None) -> None:
        self.inbox.append(self._accept(text, plan_mode=plan_mode, approved_plan=approved_plan))

    def steer(self, text: str) -> None:
        if self.turn is None or self.is_cancelling:
            self.send(text)
            return
        self.steering.append(self._accept(text, steering=True))
        for identifier, interrupt in list(self.interrupts.items()):
            if interrupt.kind != "task":
                self.decisions.setdefault(interrupt.tool_call_id, ToolDecision(steered=True))
                del self.interrupts[identifier]
        self.look()

    def decide(self, tool_call_id: str, decision: ToolDecision) -> bool:
        """Decide or answer, as the commands do: only what is open, and only once."""
        open_id = open_interrupt_id(self.calls[tool_call_id])
        interrupt = self.interrupts.get(open_id or "")
        if interrupt is None or self.is_cancelling:
            return False
        if decision.answers is not None:
            require_answers(interrupt.questions, decision.answers)
        del self.interrupts[interrupt.interrupt_id]
        self.decisions[tool_call_id] = decision
        self.look()
        return True

    def settle(self, tool_call_id: str, *, succeeded: bool) -> None:
        outcome = "succeeded" if succeeded else "failed"
        settled = settle_tool_call(self.calls[tool_call_id], outcome, "found out", NOW, person="clerk")
        self.calls[tool_call_id] = settled
        self.news.append(settled)
        self.look()

    def approve_plan(self) -> None:
        plan = approve_plan(self.plan, 0 if self.plan is None else self.plan.revision)
        if plan is not None and self.turn is None:
            self.plan = plan
            self.send(texts.plan_approved(plan.revision), approved_plan=plan.revision)

    def cancel(self) -> None:
        self.is_cancelling = self.turn is not None

    def close(self) -> None:
        self.is_closing = True
        self.cancel()

    # --- Steps outside a turn -----------------------------------------------------------------------

    def take_message(self, lost: Lost = NOTHING_LOST) -> None:
        source = self.steering or self.inbox
        message = source[0]
        change = begin_turn(self.record, message, build_user_text_message(message.text), NOW)

        def commit() -> None:
            source.pop(0)
            self._commit(change)
            self.is_beginning = True

        self._perform("AwaitUserMessage", change.events, commit, lost)

    def end(self) -> None:
        pending = sorted([*self.steering, *self.inbox], key=lambda one: self.accepted.index(one.message_id))
        spelled = [(one, build_user_text_message(one.text)) for one in pending]
        note = build_user_text_message("closed")
        change = close_session(self.record, spelled, note, NOW, settled=self.news)

        def commit() -> None:
            self.steering.clear()
            self.inbox.clear()
            self._commit(change)

        self._perform("CloseSession", change.events, commit)

    # --- Steps of a turn ----------------------------------------------------------------------------

    def think(
        self,
        decide: Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome] | None,
        deltas: Sequence[str] = (),
        lost: Lost = NOTHING_LOST,
    ) -> None:
        """Make a model call; without `decide` it fails for good."""
        view, news, steering = self.view, list(self.news), list(self.steering)
        spelled_news = [
            JoiningMessage(
                build_user_text_message(
                    texts.outcome_settled(one.tool_name, one.tool_call_id, True, one.output or "")
                )
            )
            for one in news
        ]
        joining = [
            *spelled_news,
            *(JoiningMessage(build_user_text_message(one.text), one.message_id) for one in steering),
        ]
        events = self._announce(view) if self.is_beginning else []
        events += [ToolCallCompleted(tool_call=one) for one in news]
        events += [UserMessageEvent(message_id=one.message_id, text=one.text) for one in steering]
        if view.record.settings_revision != self.settings_revision:
            events.append(SettingsUpdated(revision=self.settings_revision))
            view = with_settings_revision(view, self.settings_revision)
        events.append(ModelStarted())
        events += [TextDelta(text=one) for one in deltas]
        results = self._results(view)
        joined = number_joined(
            (), joining, next_sequence=self.record.next_sequence, turn_id=view.turn.turn_id, now=NOW
        )
        self.requests.append(
            build_input_items(
                [*view.messages, *joined, *results],
                provider=PROVIDER,
                api=API,
                recorded_calls=view.tool_calls,
                summary=None if view.summary is None else view.summary.text,
            )
        )
        index = view.turn.response_index + 1
        if decide is None:
            self._perform("RunModel", events, None, Lost((len(events), 1, len(events))), index)
            change = fail_turn(self.view, self._closing(self.view, "down"), "down", NOW)
            again = self._announce(view, for_good=True) if self.is_beginning else []
            self._perform("FailTurn", [*again, *change.events], lambda: self._commit(change), lost, index - 1)
            return
        change = decide_model_outcome(
            view,
            decide(view, results),
            NOW,
            rules=RULES,
            joining=joining,
            streamed_text="".join(deltas),
        )

        def commit() -> None:
            self.news.clear()
            self.steering.clear()
            self._commit(change)

        self._perform("RunModel", [*events, *change.events], commit, lost, index)

    @property
    def possible_cuts(self) -> list[int]:
        """Where a summary can end: before a user's message every call has its result."""
        messages = self.view.messages[1:]
        return [message.sequence - 1 for message in messages if message.message_id is not None]

    def compact(self, cut: int, lost: Lost = NOTHING_LOST) -> None:
        change = compact_context(self.view, cut, "what was said", NOW)
        index = self.view.turn.response_index
        events = [*(self._announce(self.view) if self.is_beginning else []), *change.events]
        self._perform("RunModel", events, lambda: self._commit(change), lost, index)

    def end_cancelled_turn(self, lost: Lost = NOTHING_LOST) -> None:
        before = self.view
        after = cancelled_tool_calls(before, NOW)
        steering = list(self.steering)
        joining = [JoiningMessage(build_user_text_message(one.text), one.message_id) for one in steering]
        change = cancel_turn(before, after, self._closing(after, "cancelled"), NOW, joining=joining)
        index = before.turn.response_index
        events = [] if index else self._announce(before, for_good=True)
        events += [
            UserMessageEvent(message_id=one.message_id, text=one.text, response_index=index + 1)
            for one in steering
        ]

        def commit() -> None:
            self.steering.clear()
            self._commit(change)

        self._perform("CancelTurn", [*events, *change.events], commit, lost, index)

    # --- Steps of a call ----------------------------------------------------------------------------

    def end_wait(self, tool_call_id: str, *, is_late: bool = False, lost: Lost = NOTHING_LOST) -> None:
        """Apply the decision about a waiting call; when there is none and it `is_late`, the time has come."""
        call = self.calls[tool_call_id]
        decision = self.decisions.get(tool_call_id)
        if decision is None and self.steering:
            decision = ToolDecision(steered=True)
        if decision is None and not is_late:
            return
        start = self.starts[tool_call_id]
        match call.status:
            case "waiting_for_approval":
                end = end_approval(call, decision, follows_write=start.follows_write, now=NOW)
            case "waiting_for_answer":
                by_session = call.tool_name == "ask_user"
                end = end_question(call, QUESTIONS, decision, asked_by_session=by_session, now=NOW)
            case _:
                end = InterruptEnd(end_wait(call, decision, NOW), "final")
        closed = open_interrupt_id(call) or ""
        approval = end.tool_call.approval if call.status == "waiting_for_approval" else None
        goes_on = None if end.then == "final" else end.tool_call
        events: list[AgentEvent] = [
            InterruptClosed(
                interrupt_id=closed,
                decision=None if approval is None else approval.decision,
                tool_call=goes_on,
            )
        ]
        opened: AgentInterrupt | None = None
        if end.then == "poll":
            opened = build_interrupt(end.tool_call, NOW)
            events.append(InterruptOpened(interrupt=opened, tool_call=end.tool_call))
        if end.then == "final":
            events.append(ToolCallCompleted(tool_call=end.tool_call))

        def commit() -> None:
            self.decisions.pop(tool_call_id, None)
            self.interrupts.pop(closed, None)
            if opened is not None:
                self.interrupts[opened.interrupt_id] = opened
            if end.then == "final":
                self._finish(end.tool_call, None if decision is None else decision.failed_write_id)
            else:
                self.calls[tool_call_id] = end.tool_call

        self._perform("Await", events, commit, lost, call.response_index)

    def follow_earlier_write(self, tool_call_id: str) -> None:
        """Let an ordered write run, or not, now that the one before it has ended."""
        call = self.calls[tool_call_id]
        failed = self.earlier.pop(tool_call_id)
        if failed is None:
            self.calls[tool_call_id] = release_tool_call(call)
            self.look()
            return
        skipped = skip_tool_call(call, failed, NOW)

        def commit() -> None:
            self.decisions.pop(tool_call_id, None)
            self._finish(skipped, failed)

        self._perform("AwaitEarlierWrite", [ToolCallCompleted(tool_call=skipped)], commit)

    def enter_tool(self, tool_call_id: str) -> None:
        """Begin an attempt, after the first of which another one was lost."""
        call = self.calls[tool_call_id]
        before = self.running.get(tool_call_id)
        if before is None:
            self._steps += 1
            before = Attempt(f"CallTool-{self._steps}", 0)
        attempt = Attempt(before.step, before.number + 1)
        self.running[tool_call_id] = attempt
        started = ToolCallStarted(
            tool_call_id=tool_call_id, tool_name=call.tool_name, input_rounds=call.input_rounds
        )
        progress = ToolCallProgress(tool_call_id=tool_call_id, text=f"attempt {attempt.number}")
        self._write(attempt, [started, progress], call.turn_id, call.response_index)
        self.look()

    def leave_tool(self, tool_call_id: str, outcome: str) -> None:
        """End an attempt: `succeed`, `fail`, `lose`, `die`, `ask` or `start_task`."""
        call, attempt = self.calls[tool_call_id], self.running[tool_call_id]
        if call.status != "running":
            return
        match outcome:
            case "ask":
                self._ask(attempt, call)
                return
            case "start_task":
                polling = move_tool_call(call, "start_task", task_reference="task")
                self._wait(attempt, polling, build_interrupt(polling, NOW))
                return
            case "succeed":
                final = succeed_tool_call(call, "ok", attempt=attempt.number, started_at=NOW, now=NOW)
            case "fail":
                final = fail_tool_call(call, "no", NOW, attempt=attempt.number)
            case "lose":
                final = self._reconciled(lose_tool_call(call, "lost", NOW), call)
            case _:
                if call.effect.may_run_again and attempt.number < MAX_TOOL_CALL_ATTEMPTS:
                    return
                final = self._reconciled(exhausted_tool_call(call, "died", attempt.number, NOW), call)
                self._steps += 1
                attempt = Attempt(f"RecordToolFailure-{self._steps}", 1)
        self._complete(attempt, final)

    def poll(self, tool_call_id: str, outcome: str) -> None:
        """Poll a task: `succeed`, `fail`, `lose`, `ask`, `miss`, or it goes on."""
        call = self.calls[tool_call_id]
        self._steps += 1
        attempt = Attempt(f"PollToolTask-{self._steps}", 1)
        match outcome:
            case "ask":
                self._ask(attempt, call)
            case "succeed":
                final = succeed_tool_call(call, "ok", attempt=1, started_at=NOW, now=NOW)
                self._complete(attempt, final)
            case "fail":
                self._complete(attempt, fail_tool_call(call, "no", NOW))
            case "lose":
                self._complete(attempt, lose_tool_call(call, "lost", NOW))
            case "miss":
                missed = miss_poll(call)
                if missed is None:
                    self._complete(attempt, give_up_task(call, "its server", NOW))
                else:
                    self.calls[tool_call_id] = missed
            case _:
                self.calls[tool_call_id] = move_tool_call(call, "poll_again", poll_failures=0)

    # --- The parts of Steps -------------------------------------------------------------------------

    def _accept(
        self, text: str, *, plan_mode: bool = False, steering: bool = False, approved_plan: int | None = None
    ) -> QueuedMessage:
        identifier = f"m{len(self.accepted) + 1}"
        self.accepted.append(identifier)
        return QueuedMessage(
            identifier, text, NOW, plan_mode=plan_mode, steering=steering, approved_plan=approved_plan
        )

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

    def _announce(self, view: TurnView, *, for_good: bool = False) -> list[AgentEvent]:
        named, above = f"{view.turn.turn_id} begins", 1000 if for_good else 0
        return [
            msgspec.structs.replace(event, step=named, attempt=above, response_index=0)
            for event in describe_beginning(view)
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

    def _complete(self, attempt: Attempt, final: AgentToolCall) -> None:
        before = self.calls[final.tool_call_id]
        closed = open_interrupt_id(before)
        events: list[AgentEvent] = []
        if closed is not None:
            events.append(InterruptClosed(interrupt_id=closed))
        events.append(ToolCallCompleted(tool_call=final))
        self._write(attempt, events, final.turn_id, final.response_index)
        self.look()
        if closed is not None:
            self.interrupts.pop(closed, None)
        self._finish(final)
        self.look()

    def _finish(self, final: AgentToolCall, failed_write_id: str | None = None) -> None:
        self.calls[final.tool_call_id] = final
        self.running.pop(final.tool_call_id, None)
        following = self.starts[final.tool_call_id].next_write_id
        if following is None:
            return
        if final.status == "succeeded":
            self.earlier[following] = None
            return
        failed = failed_write_id or final.tool_call_id
        self.earlier[following] = failed
        self.decisions.setdefault(following, ToolDecision(failed_write_id=failed))
        self.interrupts.pop(interrupt_id("approval", following), None)

    def _ask(self, attempt: Attempt, call: AgentToolCall) -> None:
        asking = move_tool_call(
            call, "ask_question", input_rounds=call.input_rounds + 1, input_continuation="left"
        )
        opened = build_interrupt(asking, NOW, questions=QUESTIONS, deadline=RULES.interrupt_deadline)
        self._wait(attempt, asking, opened)

    def _wait(self, attempt: Attempt, waiting: AgentToolCall, opened: AgentInterrupt) -> None:
        closed = open_interrupt_id(self.calls[waiting.tool_call_id])
        events: list[AgentEvent] = []
        if closed is not None:
            events.append(InterruptClosed(interrupt_id=closed, tool_call=waiting))
        events.append(InterruptOpened(interrupt=opened, tool_call=waiting))
        self._write(attempt, events, waiting.turn_id, waiting.response_index)
        self.look()
        self.running.pop(waiting.tool_call_id, None)
        self.interrupts.pop(closed or "", None)
        self.calls[waiting.tool_call_id] = waiting
        self.interrupts[opened.interrupt_id] = opened
        self.look()

    def _reconciled(self, final: AgentToolCall, call: AgentToolCall) -> AgentToolCall:
        if final.status != "outcome_unknown" or not call.reconcilable:
            return final
        return reconcile_tool_call(call, ToolReconciliation("succeeded", "found"), final.error or "", NOW)

    def _results(self, view: TurnView) -> tuple[FrameworkMessage, ...]:
        return tuple(
            build_tool_result_message(call, describe_tool_result(self.calls[call.tool_call_id]))
            for call in find_open_calls(view.turn_messages)
        )

    def _closing(self, view: TurnView, note: str) -> list[FrameworkMessage]:
        results = [
            build_tool_result_message(
                StoredToolCall(call.tool_call_id, call.model_call_id, call.tool_name, call.arguments),
                describe_tool_result(call),
            )
            for call in view.open_calls
        ]
        return [*results, build_user_text_message(note, is_note=True)]

    def cancel_before_entry(self, tool_call_id: str) -> None:
        """Enter a tool Step that was scheduled before its turn was cancelled."""
        left = cancel_tool_call(self.calls[tool_call_id], NOW, was_started=tool_call_id in self.running)
        self._steps += 1
        self._complete(Attempt(f"CallTool-{self._steps}", 1), left)


# --- What a model says ------------------------------------------------------------------------------


def answer(
    text: str, error: str | None = None
) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        said = build_model_output_message(StoredModelOutput(PROVIDER, API, text=_storable(text)))
        return TurnCompleted(new_messages=(*results, said), usage=AgentUsage(model_calls=1), turn_error=error)

    return decide


def go_on(text: str) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        said = build_model_output_message(StoredModelOutput(PROVIDER, API, text=_storable(text)))
        more = build_user_text_message("go on")
        return TurnContinued(
            framework_run_state="x", new_messages=(*results, said, more), usage=AgentUsage(model_calls=1)
        )

    return decide


def ask_for(
    text: str, calls: Sequence[DeferredToolCall]
) -> Callable[[TurnView, tuple[FrameworkMessage, ...]], AgentTurnOutcome]:
    """Ask for calls, each under an ID that the session has not used."""

    def decide(view: TurnView, results: tuple[FrameworkMessage, ...]) -> AgentTurnOutcome:
        used = set(used_tool_call_ids(view))
        named: list[DeferredToolCall] = []
        for call in calls:
            k = first_tool_call_number(view)
            candidate = call.model_call_id if k == 1 else f"{call.model_call_id}#{k}"
            while candidate in used:
                k += 1
                candidate = f"{call.model_call_id}#{k}"
            used.add(candidate)
            named.append(msgspec.structs.replace(call, tool_call_id=candidate))
        stored = tuple(
            StoredToolCall(
                one.tool_call_id,
                one.model_call_id,
                one.tool_name,
                replace_lone_surrogates(one.arguments),
            )
            for one in named
        )
        said = build_model_output_message(
            StoredModelOutput(PROVIDER, API, text=_storable(text), tool_calls=stored)
        )
        return ToolCallsRequested(
            framework_run_state="x",
            tool_calls=tuple(named),
            usage=AgentUsage(model_calls=1),
            new_messages=(*results, said),
        )

    return decide


def _storable(text: str) -> str:
    return replace_lone_surrogates(text) if text.strip() else ""


def approval(*, approves: bool, edited: bool = False) -> ToolDecision:
    given = ToolApproval("approve" if approves else "reject", NOW, edited=edited)
    return ToolDecision(approval=given, effective_arguments='{"edited": true}' if edited else None)


def answers(text: str) -> ToolDecision:
    return ToolDecision(answers={"q": text})
