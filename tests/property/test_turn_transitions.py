"""Random turns over the pure transitions keep what must hold at every commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dex_agents.runner.outcomes import (
    DeferredToolCall,
    ToolCallsRequested,
    TurnCompleted,
    TurnContinued,
)
from dex_agents.session.state import SessionChange, SessionRules, TurnView
from dex_agents.session.transitions.tool_calls import (
    fail_tool_call,
    lose_tool_call,
    release_tool_call,
    succeed_tool_call,
)
from dex_agents.session.transitions.turns import (
    begin_turn,
    cancel_turn,
    cancelled_tool_calls,
    decide_model_outcome,
    fail_turn,
)
from dex_agents.wire.messages import AgentMessage, FrameworkMessage, QueuedMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import AgentToolCall, ResolvedToolPolicy, ToolEffect
from dex_agents.wire.usage import AgentUsage

NOW = datetime(2026, 1, 2, tzinfo=UTC)
_policies = st.builds(ResolvedToolPolicy, st.sampled_from(ToolEffect), st.booleans())


class TurnMachine(RuleBasedStateMachine):
    """A session as its Steps would drive it, one commit after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.record = SessionRecord(started_at=NOW)
        self.messages: list[AgentMessage] = []
        self.calls: dict[str, AgentToolCall] = {}
        self.next_call = 0

    def _view(self) -> TurnView:
        assert self.record.turn is not None
        turn_calls = [self.calls[one] for one in self.record.turn.tool_call_ids]
        return TurnView(
            record=self.record, turn=self.record.turn, messages=self.messages, tool_calls=turn_calls
        )

    def _commit(self, change: SessionChange) -> None:
        self.record = change.record
        self.messages += change.new_messages
        self.calls |= {call.tool_call_id: call for call in change.tool_calls}

    def _results(self) -> list[FrameworkMessage]:
        return [
            FrameworkMessage("tool", "{}", tool_call_id=call.tool_call_id, tool_output=call.status)
            for call in self._view().open_calls
        ]

    def _running(self) -> bool:
        return self.record.turn is not None

    def _may_think(self) -> bool:
        return self._running() and all(call.is_final for call in self._view().tool_calls)

    @precondition(lambda self: not self._running())
    @rule(text=st.text(min_size=1))
    def message(self, text: str) -> None:
        queued = QueuedMessage("m", text, NOW)
        self._commit(begin_turn(self.record, queued, FrameworkMessage("user", "{}", text=text), NOW))

    @precondition(lambda self: self._may_think())
    @rule(error=st.none() | st.just("limit"))
    def answer(self, error: str | None) -> None:
        messages = (*self._results(), FrameworkMessage("assistant", "{}", text="done"))
        outcome = TurnCompleted(new_messages=messages, usage=AgentUsage(model_calls=1), turn_error=error)
        self._commit(decide_model_outcome(self._view(), outcome, NOW, rules=SessionRules()))

    @precondition(lambda self: self._may_think())
    @rule()
    def go_on(self) -> None:
        messages = (*self._results(), FrameworkMessage("user", "{}", text="go on"))
        outcome = TurnContinued(framework_run_state="x", new_messages=messages, usage=AgentUsage())
        self._commit(decide_model_outcome(self._view(), outcome, NOW, rules=SessionRules()))

    @precondition(lambda self: self._may_think())
    @rule(
        asked=st.lists(
            st.tuples(_policies, st.booleans(), st.sampled_from([None, None, "refused"])),
            min_size=1,
            max_size=5,
        )
    )
    def ask_for_tools(self, asked: Sequence[tuple[ResolvedToolPolicy, bool, str | None]]) -> None:
        calls: list[DeferredToolCall] = []
        for policy, ordered, refusal in asked:
            self.next_call += 1
            calls.append(
                DeferredToolCall(
                    tool_call_id=f"c{self.next_call}",
                    model_call_id="c",
                    tool_name="tool",
                    arguments="{}",
                    policy=policy,
                    ordered=ordered,
                    refusal=refusal,
                )
            )
        outcome = ToolCallsRequested(
            framework_run_state="x",
            tool_calls=tuple(calls),
            usage=AgentUsage(model_calls=1),
            new_messages=(*self._results(), FrameworkMessage("assistant", "{}")),
        )
        self._commit(decide_model_outcome(self._view(), outcome, NOW, rules=SessionRules()))

    @precondition(lambda self: self._running() and not self._may_think())
    @rule(data=st.data())
    def finish_a_call(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from([one for one in self._view().tool_calls if not one.is_final]))
        if call.status != "running":
            call = release_tool_call(call)
        final = data.draw(
            st.sampled_from(
                [
                    succeed_tool_call(call, "ok", attempt=1, started_at=NOW, now=NOW),
                    fail_tool_call(call, "no", NOW),
                    lose_tool_call(call, "lost", NOW),
                ]
            )
        )
        self.calls[final.tool_call_id] = final

    @precondition(lambda self: self._running())
    @rule()
    def cancel(self) -> None:
        before = self._view()
        after = cancelled_tool_calls(before, NOW)
        closing = [
            FrameworkMessage("tool", "{}", tool_call_id=call.tool_call_id) for call in after.open_calls
        ]
        self._commit(cancel_turn(before, after, [*closing, FrameworkMessage("note", "{}")], NOW))

    @precondition(lambda self: self._may_think())
    @rule()
    def fail(self) -> None:
        self._commit(fail_turn(self._view(), [*self._results(), FrameworkMessage("note", "{}")], "down", NOW))

    @invariant()
    def messages_are_numbered_without_gaps(self) -> None:
        assert [message.sequence for message in self.messages] == list(range(1, len(self.messages) + 1))
        assert self.record.next_sequence == len(self.messages) + 1

    @invariant()
    def every_call_of_a_finished_turn_is_final_and_has_one_result(self) -> None:
        results = [message.tool_call_id for message in self.messages if message.role == "tool"]
        assert len(results) == len(set(results))
        running = set(self.record.turn.tool_call_ids) if self.record.turn is not None else set[str]()
        for call in self.calls.values():
            if call.tool_call_id not in running:
                assert call.is_final
                assert call.tool_call_id in results

    @invariant()
    def nothing_runs_between_turns(self) -> None:
        assert (self.record.turn is None) or self.record.turn.number == self.record.turn_count


TestTurnMachine = TurnMachine.TestCase
