"""The session's RPCs: commands that take effect once, and consistent reads.

A command about a message locks that message's receipt, one about the running turn locks the turn gate. So of
many callers exactly one takes effect, and its own repeat after a lost reply is told that it did.
"""

from __future__ import annotations

from dex import Context, RPCResult, rpc

from dex_agents.errors import InvalidInputError
from dex_agents.runner.contract import EditsToolArguments
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.input_checks import find_text_refusal
from dex_agents.session.persistence import (
    CLOSING,
    CONTEXT_SUMMARY,
    INBOX,
    INTERRUPTS,
    MESSAGES,
    RECEIPTS,
    RECORD,
    RUNNING_TURN,
    STATUS,
    TOOL_CALLS,
    TOOL_DECISIONS,
    TURN_GATE,
    WAKE_UPS,
    get_stored,
    get_stored_instance,
    map_instance,
    message_receipt_id,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.turn_loading import load_messages, load_summary, load_tool_call
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.rpc_values import (
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    ResolveInterruptRequest,
    SendUserMessageRequest,
)
from dex_agents.wire.sessions import AgentTurnState, SessionRecord, SessionStatus
from dex_agents.wire.signals import CancelledTurn, CommandReceipt, ToolDecision, WakeUp
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.tool_calls import AgentToolCall, ToolApproval

__all__ = ["SessionRpcs"]

_APPLIED = RPCResult(CommandReply("applied"))
_ALREADY_DONE = RPCResult(CommandReply("already_done"))
_CLOSING = RPCResult(CommandReply("session_closing"))


class SessionRpcs:
    """The RPC half of a session Flow; the names are wire names."""

    _runtime: SessionRuntime
    _graph: FlowGraph

    @rpc
    def send_user_message(self, context: Context, input: SendUserMessageRequest) -> RPCResult[CommandReply]:
        """Accept a message; the receipt under its ID must be locked and loaded."""
        receipt = message_receipt_id(input.message_id)
        earlier = get_stored_instance(RECEIPTS, context, receipt)
        if earlier is not None:
            return _APPLIED if earlier.request_id == input.request_id else _ALREADY_DONE
        if CLOSING.get(context):
            return _CLOSING
        refusal = find_text_refusal(self._runtime.runner, input.text)
        if refusal is not None:
            return RPCResult(CommandReply("invalid", field="text", problem=refusal))
        now = self._runtime.clock()
        INBOX.publish(context, QueuedMessage(input.message_id, input.text, now))
        WAKE_UPS.publish(context, WakeUp())
        STATUS.set(context, "running")
        RECEIPTS.set(context, map_instance(receipt), CommandReceipt(input.request_id, now))
        return _APPLIED

    @rpc(lock_attributes=(TURN_GATE.lock(),))
    def resolve_interrupt(self, context: Context, input: ResolveInterruptRequest) -> RPCResult[CommandReply]:
        """Decide about a call; its receipt, interrupt and record must be loaded.

        The gate is what a cancellation locks too: of an approval and a cancellation one comes first.
        """
        earlier = get_stored_instance(RECEIPTS, context, input.interrupt_id)
        if earlier is not None:
            return _APPLIED if earlier.request_id == input.request_id else _ALREADY_DONE
        interrupt = get_stored_instance(INTERRUPTS, context, input.interrupt_id)
        if interrupt is None:
            return _ALREADY_DONE
        call = load_tool_call(context, interrupt.tool_call_id)
        cancelled = get_stored(TURN_GATE, context)
        if call.status != "waiting_for_approval" or (
            cancelled is not None and f"turn-{cancelled.number}" == call.turn_id
        ):
            return _ALREADY_DONE
        try:
            effective = self._edited_arguments(call, input.arguments)
        except InvalidInputError as error:
            return RPCResult(CommandReply("invalid", field=error.field, problem=error.problem))
        now = self._runtime.clock()
        approval = ToolApproval(input.decision, now, reason=input.reason, edited=effective is not None)
        TOOL_DECISIONS.publish(
            context,
            map_instance(call.tool_call_id),
            ToolDecision(approval=approval, effective_arguments=effective),
        )
        INTERRUPTS.delete(context, map_instance(input.interrupt_id))
        RECEIPTS.set(context, map_instance(input.interrupt_id), CommandReceipt(input.request_id, now))
        return _APPLIED

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(RUNNING_TURN,))
    def cancel_turn(self, context: Context, input: CancelTurnRequest) -> RPCResult[CommandReply]:
        """End the running turn."""
        cancelled = get_stored(TURN_GATE, context)
        if cancelled is not None and cancelled.request_id == input.request_id:
            # A repeat after a lost reply; the turn may have ended since.
            return _APPLIED
        record = get_stored(RECORD, context)
        turn = None if record is None else record.turn
        if turn is None or (input.turn_id is not None and turn.turn_id != input.turn_id):
            return _ALREADY_DONE
        if cancelled is not None and cancelled.number == turn.number:
            return _ALREADY_DONE
        return self._begin_cancelling(context, turn, input.request_id)

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(RUNNING_TURN,))
    def close_session(self, context: Context, input: CloseSessionRequest) -> RPCResult[CommandReply]:
        """End the session; a running turn is cancelled first."""
        if CLOSING.get(context):
            return _ALREADY_DONE
        CLOSING.set(context, True)
        WAKE_UPS.publish(context, WakeUp())
        record = get_stored(RECORD, context)
        turn, cancelled = None if record is None else record.turn, get_stored(TURN_GATE, context)
        if turn is None or (cancelled is not None and cancelled.number == turn.number):
            return _APPLIED
        return self._begin_cancelling(context, turn, input.request_id)

    @rpc(load_attribute_maps=(MESSAGES, TOOL_CALLS, CONTEXT_SUMMARY, INTERRUPTS), load_channels=(INBOX,))
    def get_agent_snapshot(self, context: Context) -> RPCResult[AgentSnapshot]:
        """Return everything, as of one commit; also after the session closed."""
        progress = _progress(context)
        record = _record(context, self._runtime)
        calls = [TOOL_CALLS.get(context, key) for key in TOOL_CALLS.get_all_instance_keys(context)]
        return RPCResult(
            AgentSnapshot(
                session_id=context.flow_id,
                status=progress.status,
                turn_count=record.turn_count,
                messages=load_messages(context),
                tool_calls=_in_asked_order(calls),
                interrupts=progress.interrupts,
                queued_messages=tuple(one.value for one in INBOX.pending_messages(context)),
                usage=record.usage,
                started_at=record.started_at,
                turn_id=progress.turn_id,
                last_turn_outcome=record.last_turn_outcome,
                last_turn_error=record.last_turn_error,
                context_summary=load_summary(context, record),
                dropped_messages=record.dropped_messages,
            )
        )

    @rpc(load_attribute_maps=(INTERRUPTS,))
    def get_progress(self, context: Context) -> RPCResult[SessionProgress]:
        """Return where the session stands, at a cost that does not grow with it."""
        return RPCResult(_progress(context))

    def _begin_cancelling(
        self, context: Context, turn: AgentTurnState, request_id: str
    ) -> RPCResult[CommandReply]:
        # The caller holds the lock of the gate, so no other turn can begin before this is committed.
        for message in RUNNING_TURN.pending_messages(context):
            RUNNING_TURN.delete(context, message.message_id)
        TURN_GATE.set(context, CancelledTurn(turn.number, request_id))
        return RPCResult(
            CommandReply("applied"),
            next_steps=(self._graph.cancel_turn(turn),),
            canceling_steps=self._graph.steps_of_a_turn,
        )

    def _edited_arguments(self, call: AgentToolCall, arguments: str | None) -> str | None:
        if arguments is None:
            return None
        runner = self._runtime.runner
        if not isinstance(runner, EditsToolArguments):
            raise InvalidInputError("arguments", "this session's runner cannot check edited arguments")
        return runner.prepare_tool_arguments(call.tool_name, arguments, call.tool_source_reference)


def _record(context: Context, runtime: SessionRuntime) -> SessionRecord:
    # A session that was just started has no record until its first Step has run.
    record = get_stored(RECORD, context)
    return record if record is not None else SessionRecord(started_at=runtime.clock())


def _progress(context: Context) -> SessionProgress:
    record = get_stored(RECORD, context)
    status: SessionStatus = "idle"
    if STATUS.get(context) == "closed":
        status = "closed"
    elif record is None or record.turn is not None:
        status = "running"
    interrupts = [INTERRUPTS.get(context, key) for key in INTERRUPTS.get_all_instance_keys(context)]
    return SessionProgress(
        status=status,
        turn_count=0 if record is None else record.turn_count,
        milestone=-1 if record is None else record.milestone,
        queued_message_count=INBOX.size(context),
        interrupts=tuple(sorted(interrupts, key=lambda one: (one.opened_at, one.interrupt_id))),
        turn_id=None if record is None or record.turn is None else record.turn.turn_id,
        last_turn_outcome=None if record is None else record.last_turn_outcome,
        last_turn_error=None if record is None else record.last_turn_error,
    )


def _in_asked_order(calls: list[AgentToolCall]) -> tuple[AgentToolCall, ...]:
    return tuple(
        sorted(
            calls,
            key=lambda call: (int(call.turn_id.removeprefix("turn-")), call.response_index, call.position),
        )
    )
