"""From what a model asked for to records, interrupts and starts: one decision for all calls of a response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from dex_agents import texts
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.runner.outcomes import DeferredToolCall
from dex_agents.session.state import SessionRules, ToolBegin, ToolStart
from dex_agents.session.transitions.interrupts import build_interrupt
from dex_agents.session.transitions.plans import write_plan
from dex_agents.session.transitions.tool_call_moves import move_tool_call
from dex_agents.session.transitions.tool_calls import finish_tool_call, skip_tool_call
from dex_agents.tools.builtin import (
    ASK_USER,
    DURABLE_WAIT,
    WRITE_TODOS,
    BuiltInArgumentsError,
    read_questions,
    read_todos,
    read_wait,
)
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["PlannedToolCalls", "plan_tool_calls"]


@dataclass(frozen=True, kw_only=True)
class PlannedToolCalls:
    """What becomes of the calls of one response.

    Attributes:
        records: One for each call, in the model's order.
        starts: How those that can run begin.
        interrupts: What is waited on at once.
        plan: The plan as it becomes, when a call writes it.
    """

    records: tuple[AgentToolCall, ...]
    starts: tuple[ToolStart, ...]
    interrupts: tuple[AgentInterrupt, ...]
    plan: AgentPlan | None = None


def plan_tool_calls(
    calls: Sequence[DeferredToolCall],
    *,
    turn_id: str,
    response_index: int,
    used_tool_call_ids: frozenset[str],
    now: datetime,
    rules: SessionRules,
    plan: AgentPlan | None = None,
    plan_mode: bool = False,
) -> PlannedToolCalls:
    """Turn what the model asked for into records, interrupts and starts.

    All calls begin at once. The exception are ordered writes: each waits for the one before it, and after one
    that cannot run the rest do not run either. Built-in tools run in no Step: what they ask for begins, or
    has happened, with this decision.

    Args:
        calls: What the runner defers, in the model's order.
        turn_id: The turn.
        response_index: Which model response of the turn asks, from 1.
        used_tool_call_ids: IDs that the session has used.
        now: The time of the commit.
        rules: What the application chose.
        plan: The plan so far.
        plan_mode: Whether the turn only plans.

    Raises:
        RunnerContractError: No call, or an ID that the session has used.
    """
    if not calls:
        raise RunnerContractError("tool_calls is empty")
    planning = _Planning(rules, now, plan, plan_mode=plan_mode)
    seen = set(used_tool_call_ids)
    for position, call in enumerate(calls):
        if call.tool_call_id in seen or not call.tool_call_id:
            raise RunnerContractError(f"tool_calls: the ID {call.tool_call_id!r} is empty or used before")
        seen.add(call.tool_call_id)
        planning.add(call, _intend(call, turn_id, response_index, position, now))
    return planning.result()


class _Planning:
    """Collects what becomes of calls, in their order."""

    def __init__(
        self, rules: SessionRules, now: datetime, plan: AgentPlan | None, *, plan_mode: bool
    ) -> None:
        self._rules = rules
        self._now = now
        self._plan = plan
        self._plan_mode = plan_mode
        self._written_plan: AgentPlan | None = None
        self._failed_write: str | None = None
        self._records: list[AgentToolCall] = []
        self._begins: dict[str, ToolBegin] = {}
        self._interrupts: list[AgentInterrupt] = []

    def add(self, call: DeferredToolCall, record: AgentToolCall) -> None:
        """Take the next call."""
        if call.ordered and self._failed_write is not None and not record.is_final:
            record = skip_tool_call(record, self._failed_write, self._now)
        if call.ordered and record.is_final and self._failed_write is None:
            self._failed_write = record.tool_call_id
        if not record.is_final:
            record = self._begin(call, record)
        self._records.append(record)

    def result(self) -> PlannedToolCalls:
        """Return the decision."""
        writes = [record.tool_call_id for record in self._records if record.ordered and not record.is_final]
        following = dict(pairwise(writes))
        starts: list[ToolStart] = []
        records: list[AgentToolCall] = []
        for record in self._records:
            begins = self._begins.get(record.tool_call_id)
            started = record
            if begins is not None:
                follows_write = record.ordered and record.tool_call_id != writes[0]
                if begins == "call" and follows_write:
                    begins = "earlier_write"
                elif begins == "call":
                    started = move_tool_call(record, "release")
                starts.append(
                    ToolStart(
                        tool_call=started,
                        begins_with=begins,
                        next_write_id=following.get(record.tool_call_id),
                        follows_write=follows_write,
                    )
                )
            records.append(started)
        return PlannedToolCalls(
            records=tuple(records),
            starts=tuple(starts),
            interrupts=tuple(self._interrupts),
            plan=self._written_plan,
        )

    def _begin(self, call: DeferredToolCall, record: AgentToolCall) -> AgentToolCall:
        if call.tool_name in self._rules.built_in_tools:
            try:
                return _BUILT_IN[call.tool_name](self, record)
            except BuiltInArgumentsError as problem:
                text = _BUILT_IN_PROBLEMS[call.tool_name](str(problem))
                return finish_tool_call(record, "refuse", self._now, error=text)
        if call.policy.requires_approval:
            return self._wait_on(move_tool_call(record, "ask_approval"), "approval")
        self._begins[record.tool_call_id] = "call"
        return record

    def ask_user(self, record: AgentToolCall) -> AgentToolCall:
        questions = read_questions(record.arguments)
        asking = move_tool_call(record, "ask_question", input_rounds=1)
        self._begins[record.tool_call_id] = "answer"
        self._interrupts.append(
            build_interrupt(asking, self._now, questions=questions, deadline=self._rules.interrupt_deadline)
        )
        return asking

    def durable_wait(self, record: AgentToolCall) -> AgentToolCall:
        wanted = read_wait(record.arguments, self._now)
        waiting = move_tool_call(record, "wait")
        self._begins[record.tool_call_id] = "time"
        self._interrupts.append(build_interrupt(waiting, self._now, until=wanted.until, reason=wanted.reason))
        return waiting

    def write_todos(self, record: AgentToolCall) -> AgentToolCall:
        if self._written_plan is not None:
            raise BuiltInArgumentsError(texts.SECOND_WRITE_TODOS)
        self._written_plan = write_plan(self._plan, read_todos(record.arguments), plan_mode=self._plan_mode)
        output = texts.plan_written(self._written_plan.revision)
        return finish_tool_call(record, "write_plan", self._now, output=output)

    def _wait_on(self, record: AgentToolCall, begins: ToolBegin) -> AgentToolCall:
        self._begins[record.tool_call_id] = begins
        self._interrupts.append(build_interrupt(record, self._now, deadline=self._rules.interrupt_deadline))
        return record


_BUILT_IN: Final = {
    ASK_USER.name: _Planning.ask_user,
    DURABLE_WAIT.name: _Planning.durable_wait,
    WRITE_TODOS.name: _Planning.write_todos,
}

_BUILT_IN_PROBLEMS: Final = {
    ASK_USER.name: texts.invalid_questions,
    DURABLE_WAIT.name: texts.invalid_wait,
    WRITE_TODOS.name: texts.invalid_todos,
}


def _intend(
    call: DeferredToolCall, turn_id: str, response_index: int, position: int, now: datetime
) -> AgentToolCall:
    record = AgentToolCall(
        tool_call_id=call.tool_call_id,
        model_call_id=replace_lone_surrogates(call.model_call_id),
        turn_id=turn_id,
        response_index=response_index,
        tool_name=replace_lone_surrogates(call.tool_name),
        arguments=replace_lone_surrogates(call.arguments),
        effect=call.policy.effect,
        status="pending",
        requested_at=now,
        effective_arguments=call.effective_arguments,
        position=position,
        ordered=call.ordered,
        tool_source_reference=call.tool_source_reference,
        reconcilable=call.reconcilable,
    )
    if call.refusal is not None:
        return finish_tool_call(record, "refuse", now, error=call.refusal)
    if call.not_run_reason is not None:
        return finish_tool_call(record, "withhold", now, error=call.not_run_reason)
    return record
