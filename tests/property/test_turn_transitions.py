"""Random people, models, tools and crashes over the real transitions keep what must hold at every commit.

And what viewers are shown: whenever a snapshot was taken, it and the events since show in the end what the
session holds, and what somebody sees who watched from the beginning.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dex_agents.builtin_loop import ModelInputItem, ModelOutputItem, ModelToolResultItem, ModelUserTextItem
from dex_agents.builtin_loop.input_items import build_input_items
from dex_agents.errors import RunnerContractError
from dex_agents.limits import MAX_TOOL_CALL_ATTEMPTS
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.session.transitions.interrupts import open_interrupt_id
from dex_agents.wire.tool_calls import (
    FINAL_TOOL_CALL_STATUSES,
    AgentToolCall,
    ResolvedToolPolicy,
    ToolEffect,
)
from tests.oracles.session_view import Screen, SessionView, show_snapshot
from tests.property.session_simulation import SimulatedSession
from tests.property.simulated_replies import answer, answers, approval, ask_for, go_on
from tests.property.simulated_store import API, NOTHING_LOST, PROVIDER, Lost

_WAITING = ("waiting_for_approval", "waiting_for_answer", "waiting_for_time")

_texts = st.sampled_from(["yes", "two words", " ", "", "deep \ud800 end", "日本"])
_user_texts = st.sampled_from(["hello", "日本", "go\n on"])
_losses = st.one_of(
    st.just(NOTHING_LOST), st.lists(st.integers(0, 9), min_size=1, max_size=2).map(tuple).map(Lost)
)
_streams = st.sampled_from([(), ("ye",), ("y", "es"), ("two ", "words"), ("something else",)])
_effects = st.sampled_from(ToolEffect)
_model_call_ids = st.sampled_from(["a", "b", "c"])

_ASK_USER = json.dumps({"questions": [{"id": "q", "question": "Which one?"}]})
_WRITE_TODOS = json.dumps({"todos": [{"task": "pack", "status": "in_progress"}]})
_DURABLE_WAIT = json.dumps({"seconds": 60, "reason": "later"})


@st.composite
def _calls(draw: st.DrawFn) -> DeferredToolCall:
    arguments = draw(st.sampled_from(["{}", '{"a": 1}', "", "not JSON", "[1]", '{"a": "\ud800"}']))
    return DeferredToolCall(
        tool_call_id="",
        model_call_id=draw(_model_call_ids),
        tool_name=draw(st.sampled_from(["tool", "no such tool!", ""])),
        arguments=arguments,
        policy=ResolvedToolPolicy(draw(_effects), draw(st.booleans())),
        ordered=draw(st.booleans()),
        refusal=draw(st.sampled_from([*([None] * 7), "refused"])),
        not_run_reason=draw(st.sampled_from([*([None] * 7), "too many"])),
        reconcilable=draw(st.booleans()),
    )


@st.composite
def _built_in_calls(draw: st.DrawFn) -> DeferredToolCall:
    name, arguments = draw(
        st.sampled_from(
            [
                ("ask_user", _ASK_USER),
                ("ask_user", "{}"),
                ("durable_wait", _DURABLE_WAIT),
                ("write_todos", _WRITE_TODOS),
                ("write_todos", "[]"),
            ]
        )
    )
    return DeferredToolCall(
        tool_call_id="",
        model_call_id=draw(_model_call_ids),
        tool_name=name,
        arguments=arguments,
        policy=ResolvedToolPolicy(ToolEffect.READ, False),
    )


_any_calls = st.one_of(_calls(), _calls(), _built_in_calls())


class SessionMachine(RuleBasedStateMachine):
    """One session, one commit after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SimulatedSession()
        self.final: dict[str, AgentToolCall] = {}
        self.open_interrupts: set[str] = set()
        self.known_interrupts: set[str] = set()

    # --- People -------------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        return not self.session.is_closing

    @precondition(_is_open)
    @rule(
        kind=st.sampled_from(["send", "send", "send", "steer", "approve plan", "settings"]),
        text=_user_texts,
        plan_mode=st.booleans(),
    )
    def write(self, kind: str, text: str, plan_mode: bool) -> None:
        match kind:
            case "send":
                self.session.send(text, plan_mode=plan_mode)
            case "steer":
                self.session.steer(text)
            case "approve plan":
                self.session.approve_plan()
            case _:
                self.session.settings_revision += 1

    @precondition(lambda self: self.session.interrupts)
    @rule(
        data=st.data(), approves=st.booleans(), edited=st.booleans(), text=st.sampled_from(["this", "that"])
    )
    def decide(self, data: st.DataObject, approves: bool, edited: bool, text: str) -> None:
        interrupt = data.draw(st.sampled_from(list(self.session.interrupts.values())))
        if interrupt.kind == "approval":
            decision = approval(approves=approves, edited=edited and approves)
        elif interrupt.kind == "question":
            decision = answers(text)
        else:
            return
        decided = self.session.decide(interrupt.tool_call_id, decision)
        assert decided is not self.session.is_cancelling
        assert not self.session.decide(interrupt.tool_call_id, decision)

    def _has_unknown_outcomes(self) -> bool:
        session = self.session
        unknown = any(call.status == "outcome_unknown" for call in session.calls.values())
        return unknown and session.status != "closed"

    @precondition(_has_unknown_outcomes)
    @rule(data=st.data(), succeeded=st.booleans())
    def settle(self, data: st.DataObject, succeeded: bool) -> None:
        unknown = [one for one, call in self.session.calls.items() if call.status == "outcome_unknown"]
        chosen = data.draw(st.sampled_from(unknown))
        del self.final[chosen]
        self.session.settle(chosen, succeeded=succeeded)
        with pytest.raises(RunnerContractError):
            self.session.settle(chosen, succeeded=succeeded)

    @precondition(_is_open)
    @rule(kind=st.sampled_from(["cancel", "cancel", "cancel", "close", *(["nothing"] * 12)]))
    def stop(self, kind: str) -> None:
        if kind == "cancel":
            self.session.cancel()
        elif kind == "close":
            self.session.close()

    # --- The session --------------------------------------------------------------------------------

    @rule(data=st.data(), times=st.integers(1, 8))
    def go_on(self, data: st.DataObject, times: int) -> None:
        """Let the session do what it can do next, several things in a row."""
        for _ in range(times):
            possible = self._possible()
            if not possible:
                return
            data.draw(st.sampled_from(possible))(data)
            self.require_what_must_hold()

    def _possible(self) -> list[Callable[[st.DataObject], None]]:
        session = self.session
        if session.status == "closed":
            return []
        if session.is_cancelling:
            late = [partial(self._enter_late, one) for one in self._scheduled()]
            leaving = [partial(self._leave_tool, one) for one in self._entered()]
            return [self._end_cancelled_turn, *late, *leaving]
        if session.turn is None:
            if session.is_closing:
                return [lambda _: session.end()]
            return [self._take_message] if session.steering or session.inbox else []
        if session.may_think:
            return [self._think]
        told = [one for one in session.open_calls("pending") if one in session.earlier]
        return [
            *(partial(self._end_wait, one) for one in session.open_calls(*_WAITING)),
            *(partial(self._follow_earlier_write, one) for one in told),
            *(partial(self._enter_tool, one) for one in session.open_calls("running")),
            *(partial(self._leave_tool, one) for one in self._entered()),
            *(partial(self._poll, one) for one in session.open_calls("polling")),
            self._think_too_early,
        ]

    def _take_message(self, data: st.DataObject) -> None:
        self.session.take_message(data.draw(_losses))

    def _end_cancelled_turn(self, data: st.DataObject) -> None:
        self.session.end_cancelled_turn(data.draw(_losses))

    def _think(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(["tools", "tools", "tools", "answer", "go on", "give up", "fail"]))
        cuts = self.session.possible_cuts
        if cuts and data.draw(st.integers(0, 3)) == 0:
            self.session.compact(data.draw(st.sampled_from(cuts)), data.draw(_losses))
            return
        text, deltas, lost = data.draw(_texts), data.draw(_streams), data.draw(_losses)
        match kind:
            case "tools":
                calls = data.draw(st.lists(_any_calls, min_size=1, max_size=4))
                self.session.think(ask_for(text, calls), deltas, lost)
            case "answer":
                self.session.think(answer(text), deltas, lost)
            case "go on":
                self.session.think(go_on(text), deltas, lost)
            case "give up":
                self.session.think(answer(text, "limit"), deltas, lost)
            case _:
                self.session.think(None, deltas, lost)

    def _think_too_early(self, data: st.DataObject) -> None:
        written = len(self.session.stream)
        with pytest.raises(RunnerContractError):
            self.session.think(answer("too early"))
        assert len(self.session.stream) == written

    # --- Tools --------------------------------------------------------------------------------------

    def _entered(self) -> list[str]:
        session = self.session
        return [one for one in session.running if session.calls[one].status == "running"]

    def _scheduled(self) -> list[str]:
        view = self.session.view
        entered = self.session.running
        return [
            one.tool_call_id
            for one in view.tool_calls
            if one.status == "running" and one.tool_call_id not in entered
        ]

    def _end_wait(self, tool_call_id: str, data: st.DataObject) -> None:
        session = self.session
        status = session.calls[tool_call_id].status
        if tool_call_id not in session.decisions and data.draw(st.integers(0, 3)):
            if status == "waiting_for_approval":
                approves, edited = data.draw(st.booleans()), data.draw(st.booleans())
                session.decide(tool_call_id, approval(approves=approves, edited=edited and approves))
            elif status == "waiting_for_answer":
                session.decide(tool_call_id, answers("this"))
        session.end_wait(tool_call_id, is_late=data.draw(st.booleans()), lost=data.draw(_losses))

    def _follow_earlier_write(self, tool_call_id: str, data: st.DataObject) -> None:
        self.session.follow_earlier_write(tool_call_id)

    def _enter_tool(self, tool_call_id: str, data: st.DataObject) -> None:
        earlier = self.session.running.get(tool_call_id)
        may_run_again = self.session.calls[tool_call_id].effect.may_run_again
        if earlier is None or (may_run_again and earlier.number < MAX_TOOL_CALL_ATTEMPTS):
            self.session.enter_tool(tool_call_id)

    def _enter_late(self, tool_call_id: str, data: st.DataObject) -> None:
        self.session.cancel_before_entry(tool_call_id)

    def _leave_tool(self, tool_call_id: str, data: st.DataObject) -> None:
        outcomes = ["succeed", "fail", "lose", "die"]
        if not self.session.is_cancelling:
            outcomes += ["succeed", "ask", "ask", "start_task"]
        self.session.leave_tool(tool_call_id, data.draw(st.sampled_from(outcomes)))

    def _poll(self, tool_call_id: str, data: st.DataObject) -> None:
        outcomes = ["succeed", "fail", "lose", "ask", "ask", "miss", "miss", "miss", "goes on"]
        self.session.poll(tool_call_id, data.draw(st.sampled_from(outcomes)))

    # --- What must hold -----------------------------------------------------------------------------

    @invariant()
    def require_what_must_hold(self) -> None:
        self._messages_are_numbered_without_gaps()
        self._every_call_of_a_finished_round_has_exactly_one_result()
        self._every_request_is_valid()
        self._a_final_record_never_changes()
        self._no_accepted_message_is_lost_and_their_order_is_kept()
        self._who_waits_has_one_interrupt_and_nobody_else_has_any()
        self._no_interrupt_comes_back()
        self._a_plan_counts_its_revisions()

    def _messages_are_numbered_without_gaps(self) -> None:
        messages = self.session.messages
        assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
        assert self.session.record.next_sequence == len(messages) + 1

    def _every_call_of_a_finished_round_has_exactly_one_result(self) -> None:
        results = Counter(one.tool_call_id for one in self.session.messages if one.role == "tool")
        turn = self.session.turn
        open_now = set(turn.waiting_call_ids) if turn is not None else set[str]()
        for identifier, call in self.session.calls.items():
            if identifier in open_now:
                assert results[identifier] == 0
            else:
                assert call.is_final
                assert results[identifier] == 1
        assert set(results) <= set(self.session.calls)

    def _every_request_is_valid(self) -> None:
        for request in self.session.requests:
            require_valid_request(request)
        self.session.requests.clear()
        view = self.session.view if self.session.turn is not None else None
        require_valid_request(
            build_input_items(
                self.session.messages,
                provider=PROVIDER,
                api=API,
                recorded_calls=() if view is None else view.tool_calls,
            )
        )

    def _a_final_record_never_changes(self) -> None:
        for identifier, call in self.session.calls.items():
            if not call.is_final:
                assert identifier not in self.final
                continue
            assert self.final.setdefault(identifier, call) == call
            require_honest_record(call)

    def _no_accepted_message_is_lost_and_their_order_is_kept(self) -> None:
        session = self.session
        stored = [one.message_id for one in session.messages if one.message_id is not None]
        queued = [one.message_id for one in (*session.steering, *session.inbox)]
        assert sorted([*stored, *queued]) == sorted(session.accepted)
        for kind in ("steering", "inbox"):
            waiting = [session.accepted.index(one.message_id) for one in getattr(session, kind)]
            assert waiting == sorted(waiting)

    def _who_waits_has_one_interrupt_and_nobody_else_has_any(self) -> None:
        session = self.session
        waiting = {
            open_interrupt_id(call)
            for identifier, call in session.calls.items()
            # Whoever ends an interrupt removes it; the Step that waits notices a moment later.
            if open_interrupt_id(call) is not None and identifier not in session.decisions
        }
        assert set(session.interrupts) == waiting

    def _no_interrupt_comes_back(self) -> None:
        now = set(self.session.interrupts)
        assert not (now - self.open_interrupts) & self.known_interrupts
        self.open_interrupts, self.known_interrupts = now, self.known_interrupts | now

    def _a_plan_counts_its_revisions(self) -> None:
        written = [
            call
            for call in self.session.calls.values()
            if call.tool_name == "write_todos" and call.status == "succeeded"
        ]
        assert (0 if self.session.plan is None else self.session.plan.revision) == len(written)

    # --- What viewers see ---------------------------------------------------------------------------

    def teardown(self) -> None:
        self._come_to_rest()
        last = self.session.snapshot()
        expected = show_snapshot(last)
        watching = SessionView()
        for event in self.session.stream:
            watching.take(event)
        require_same(watching.screen, expected)
        for snapshot, place in self.session.snapshots[:: max(1, len(self.session.snapshots) // 16)]:
            held = EventFilter(snapshot)
            joining = SessionView(snapshot)
            for event in self.session.stream[place:]:
                if not held.holds(event):
                    joining.take(event)
            require_same(joining.screen, expected)
            assert all(held.holds(event) for event in self.session.stream[:place])
        held = EventFilter(last)
        assert all(held.holds(event) for event in self.session.stream)

    def _come_to_rest(self) -> None:
        """End the turn that runs, and let the next model call tell what was settled."""
        session = self.session
        if session.turn is not None:
            session.cancel()
            session.end_cancelled_turn()
        if session.is_closing:
            if session.status != "closed":
                session.end()
            return
        session.send("the last one")
        while session.inbox or session.steering:
            session.take_message()
            session.think(answer("done"), ("done",))


def require_same(shown: Screen, expected: Screen) -> None:
    for name, value in vars(expected).items():
        assert getattr(shown, name) == value, name


def require_valid_request(items: Sequence[ModelInputItem]) -> None:
    """Require what every provider does of a request."""
    owed: list[str] = []
    for item in items:
        match item:
            case ModelUserTextItem(text=text):
                assert not owed
                require_text(text)
            case ModelOutputItem(text=text, tool_calls=calls):
                assert not owed
                assert text.strip() or calls
                assert not text or text.strip()
                text.encode()
                for call in calls:
                    call.arguments.encode()
                    assert isinstance(json.loads(call.arguments), dict)
                owed = [call.model_call_id for call in calls]
            case ModelToolResultItem(model_call_id=model_call_id, output=output):
                assert owed
                assert owed.pop(0) == model_call_id
                require_text(output)
    assert not owed
    assert not items or isinstance(items[0], ModelUserTextItem)


def require_text(text: str) -> None:
    assert text.strip()
    text.encode()


def require_honest_record(call: AgentToolCall) -> None:
    """Require that a final record claims no more than is known."""
    assert call.status in FINAL_TOOL_CALL_STATUSES
    assert (call.output is not None) == (call.status == "succeeded")
    assert (call.error is not None) == (call.status != "succeeded")
    if call.status == "rejected":
        assert call.approval is None or call.approval.decision == "reject"
        assert call.attempts == 0
    if call.status == "not_run" and call.effect.is_write:
        # A tool asks first before it changes anything; what it did between two questions is not known.
        assert call.task_reference is None
        assert call.input_rounds <= 1
    if call.status == "outcome_unknown":
        assert call.started_at is None or call.attempts > 0
    if call.approval is not None and call.approval.decision == "reject":
        assert call.status == "rejected"


TestSessionMachine = SessionMachine.TestCase
