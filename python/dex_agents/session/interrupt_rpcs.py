"""Commands about calls: decide, answer, settle. Each takes effect once, whoever comes first.

They lock the turn gate, which a cancellation and a steering message lock too: of an answer and a cancellation
one comes first, and the other finds nothing left to do.
"""

from __future__ import annotations

from dex import Context, RPCResult, rpc

from dex_agents.errors import InvalidInputError
from dex_agents.runner.contract import EditsToolArguments
from dex_agents.session.command_replies import ALREADY_DONE, APPLIED, invalid
from dex_agents.session.persistence import (
    INBOX,
    INTERRUPTS,
    RECEIPTS,
    TOOL_CALLS,
    TOOL_DECISIONS,
    TURN_GATE,
    get_stored_instance,
    map_instance,
    settlement_receipt_id,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.steps.turn_loading import load_tool_call
from dex_agents.session.transitions.interrupts import open_interrupt_id, require_answers
from dex_agents.session.transitions.tool_calls import settle_tool_call
from dex_agents.wire.interrupts import AgentInterrupt, InterruptKind
from dex_agents.wire.rpc_values import (
    AnswerQuestionRequest,
    CommandReply,
    ResolveInterruptRequest,
    SettleToolOutcomeRequest,
)
from dex_agents.wire.signals import CommandReceipt, InboxItem, ToolDecision
from dex_agents.wire.tool_calls import AgentToolCall, ToolApproval

__all__ = ["InterruptRpcs"]


class InterruptRpcs:
    """The RPCs of a session Flow about calls; the names are wire names."""

    _runtime: SessionRuntime

    @rpc(lock_attributes=(TURN_GATE.lock(),))
    def resolve_interrupt(self, context: Context, input: ResolveInterruptRequest) -> RPCResult[CommandReply]:
        """Decide about a call; its receipt, interrupt and record must be loaded."""
        earlier = get_stored_instance(RECEIPTS, context, input.interrupt_id)
        if earlier is not None:
            return APPLIED if earlier.request_id == input.request_id else ALREADY_DONE
        interrupt = _open(context, input.interrupt_id, "approval")
        if interrupt is None:
            return ALREADY_DONE
        call = load_tool_call(context, interrupt.tool_call_id)
        try:
            effective = self._edited_arguments(call, input.arguments)
        except InvalidInputError as error:
            return invalid(error.field, error.problem)
        approval = ToolApproval(
            input.decision, self._runtime.clock(), reason=input.reason, edited=effective is not None
        )
        decision = ToolDecision(approval=approval, effective_arguments=effective)
        return self._close(context, interrupt, decision, input.request_id)

    @rpc(lock_attributes=(TURN_GATE.lock(),))
    def answer_question(self, context: Context, input: AnswerQuestionRequest) -> RPCResult[CommandReply]:
        """Answer what a call asks; its receipt, interrupt and record must be loaded."""
        earlier = get_stored_instance(RECEIPTS, context, input.interrupt_id)
        if earlier is not None:
            return APPLIED if earlier.request_id == input.request_id else ALREADY_DONE
        interrupt = _open(context, input.interrupt_id, "question")
        if interrupt is None:
            return ALREADY_DONE
        try:
            answers = require_answers(interrupt.questions, input.answers)
        except InvalidInputError as error:
            return invalid(error.field, error.problem)
        return self._close(context, interrupt, ToolDecision(answers=answers), input.request_id)

    @rpc(lock_attributes=(TURN_GATE.lock(),))
    def settle_tool_outcome(
        self, context: Context, input: SettleToolOutcomeRequest
    ) -> RPCResult[CommandReply]:
        """Say what became of a call; its receipt and record must be loaded."""
        receipt = settlement_receipt_id(input.tool_call_id)
        earlier = get_stored_instance(RECEIPTS, context, receipt)
        if earlier is not None:
            return APPLIED if earlier.request_id == input.request_id else ALREADY_DONE
        call = get_stored_instance(TOOL_CALLS, context, input.tool_call_id)
        if call is None:
            return invalid("tool_call_id", f"no call of the session has the ID {input.tool_call_id!r}")
        if call.status != "outcome_unknown":
            return ALREADY_DONE
        now = self._runtime.clock()
        settled = settle_tool_call(call, input.outcome, input.output, now, person=input.person)
        TOOL_CALLS.set(context, map_instance(call.tool_call_id), settled)
        INBOX.publish(context, InboxItem(settled=settled))
        RECEIPTS.set(context, map_instance(receipt), CommandReceipt(input.request_id, now))
        return APPLIED

    def _close(
        self, context: Context, interrupt: AgentInterrupt, decision: ToolDecision, request_id: str
    ) -> RPCResult[CommandReply]:
        TOOL_DECISIONS.publish(context, map_instance(interrupt.tool_call_id), decision)
        instance = map_instance(interrupt.interrupt_id)
        INTERRUPTS.delete(context, instance)
        RECEIPTS.set(context, instance, CommandReceipt(request_id, self._runtime.clock()))
        return APPLIED

    def _edited_arguments(self, call: AgentToolCall, arguments: str | None) -> str | None:
        if arguments is None:
            return None
        runner = self._runtime.runner
        if not isinstance(runner, EditsToolArguments):
            raise InvalidInputError("arguments", "this session's runner cannot check edited arguments")
        return runner.prepare_tool_arguments(call.tool_name, arguments, call.tool_source_reference)


def _open(context: Context, identifier: str, kind: InterruptKind) -> AgentInterrupt | None:
    """Return an interrupt that still waits, or `None`."""
    interrupt = get_stored_instance(INTERRUPTS, context, identifier)
    if interrupt is None or interrupt.kind != kind:
        return None
    call = load_tool_call(context, interrupt.tool_call_id)
    if open_interrupt_id(call) != identifier:
        return None
    return None if is_cancelled(context, int(interrupt.turn_id.removeprefix("turn-"))) else interrupt
