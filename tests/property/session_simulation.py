"""A session without an engine: the Steps' part played plainly, over the real transitions.

Each method is one Step or one command. A Step writes its events, then commits; attempts before may be lost
after any of their events. After each of these moments a snapshot can be taken, as a client would get it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.input_items import (
    build_input_items,
    build_tool_result_message,
    build_user_text_message,
    find_open_calls,
)
from dex_agents.builtin_loop.stored_items import StoredToolCall
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.runner.outcomes import (
    AgentTurnOutcome,
    ToolReconciliation,
)
from dex_agents.session.state import TurnView
from dex_agents.session.transitions.closing import close_session
from dex_agents.session.transitions.context import compact_context
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
    with_settings_revision,
)
from dex_agents.tools.results import describe_tool_result
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
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import FrameworkMessage, QueuedMessage
from dex_agents.wire.signals import ToolDecision
from dex_agents.wire.tool_calls import AgentToolCall
from tests.property.simulated_store import (
    API,
    NOTHING_LOST,
    NOW,
    PROVIDER,
    QUESTIONS,
    RULES,
    Attempt,
    Lost,
    SimulatedStore,
)


@dataclass
class SimulatedSession(SimulatedStore):
    """The Steps and commands of a session."""

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

    def _announce(self, view: TurnView, *, for_good: bool = False) -> list[AgentEvent]:
        named, above = f"{view.turn.turn_id} begins", 1000 if for_good else 0
        return [
            msgspec.structs.replace(event, step=named, attempt=above, response_index=0)
            for event in describe_beginning(view)
        ]

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
