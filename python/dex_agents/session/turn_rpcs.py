"""Commands about messages and turns; each takes effect once.

A command about a message locks that message's receipt, one about the running turn locks the turn gate. So of
many callers exactly one takes effect, and its own repeat after a lost reply is told that it did.
"""

from __future__ import annotations

from dex import Context, RPCResult, rpc

from dex_agents import texts
from dex_agents.session.command_replies import ALREADY_DONE, APPLIED, SESSION_CLOSING, invalid
from dex_agents.session.flow_graph import FlowGraph
from dex_agents.session.input_checks import find_text_refusal
from dex_agents.session.persistence import (
    CLOSING,
    IDLE,
    INBOX,
    INTERRUPTS,
    PLAN,
    RECEIPTS,
    RECORD,
    SETTINGS,
    STATUS,
    TOOL_DECISIONS,
    TURN_GATE,
    WAKE_UPS,
    get_stored,
    get_stored_instance,
    map_instance,
    message_receipt_id,
    plan_receipt_id,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.turn_begin import take_message
from dex_agents.session.steps.turn_gate import is_cancelled
from dex_agents.session.transitions.plans import approve_plan
from dex_agents.session.user_messages import find_image_refusal
from dex_agents.wire.messages import QueuedMessage
from dex_agents.wire.rpc_values import (
    ApprovePlanRequest,
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    SendUserMessageRequest,
    UpdateSessionSettingsRequest,
    WithdrawMessageRequest,
)
from dex_agents.wire.sessions import AgentTurnState
from dex_agents.wire.settings import SessionSettings
from dex_agents.wire.signals import CancelledTurn, CommandReceipt, InboxItem, ToolDecision, WakeUp

__all__ = ["TurnRpcs"]


class TurnRpcs:
    """The RPCs of a session Flow about messages and turns; the names are wire names."""

    _runtime: SessionRuntime
    _graph: FlowGraph

    @rpc
    def send_user_message(self, context: Context, input: SendUserMessageRequest) -> RPCResult[CommandReply]:
        """Queue a message, also in an idle session, whose next turn takes it then.

        For callers that cannot repeat a refused command; any other calls `begin_turn`. The receipt under its
        ID must be locked and loaded.
        """
        return self._refuse(context, input) or self._accept(context, input)

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(IDLE,))
    def begin_turn(self, context: Context, input: SendUserMessageRequest) -> RPCResult[CommandReply]:
        """Accept a message as `send_user_message` does; in an idle session its turn begins with it.

        The receipt under its ID must be locked and loaded.
        """
        return self._refuse(context, input) or self._begin(context, input)

    @rpc(
        lock_attributes=(TURN_GATE.lock(),),
        load_attribute_maps=(INTERRUPTS,),
        load_channels=(IDLE,),
    )
    def steer_user_message(self, context: Context, input: SendUserMessageRequest) -> RPCResult[CommandReply]:
        """Accept a message for the running turn; the receipt under its ID must be locked and loaded.

        Whatever the turn waits on a person or a point in time for ends at once; without a turn to join the
        message is an ordinary one.
        """
        refused = self._refuse(context, input)
        if refused is not None:
            return refused
        record = get_stored(RECORD, context)
        turn = None if record is None else record.turn
        if turn is None or is_cancelled(context, turn.number):
            return self._begin(context, input)
        for key in INTERRUPTS.get_all_instance_keys(context):
            interrupt = INTERRUPTS.get(context, key)
            if interrupt.kind != "task":
                TOOL_DECISIONS.publish(
                    context, map_instance(interrupt.tool_call_id), ToolDecision(steered=True)
                )
                INTERRUPTS.delete(context, key)
        return self._accept(context, input, steering=True)

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(INBOX,))
    def withdraw_message(self, context: Context, input: WithdrawMessageRequest) -> RPCResult[CommandReply]:
        """Take back a message that no turn has taken; the receipt under its ID must be loaded."""
        receipt = get_stored_instance(RECEIPTS, context, message_receipt_id(input.message_id))
        for item in load_inbox(context).queued:
            if item.value.message is not None and item.value.message.message_id == input.message_id:
                INBOX.delete(context, item.message_id)
                RECEIPTS.set(
                    context,
                    map_instance(message_receipt_id(input.message_id)),
                    CommandReceipt(input.request_id, self._runtime.clock()),
                )
                return APPLIED
        # The receipt names the command that withdrew it, so that this command's repeat is told so.
        repeated = receipt is not None and receipt.request_id == input.request_id
        return APPLIED if repeated else ALREADY_DONE

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(IDLE,))
    def approve_plan(self, context: Context, input: ApprovePlanRequest) -> RPCResult[CommandReply]:
        """Approve the latest draft and start the turn that works on it; its receipt must be loaded."""
        receipt = plan_receipt_id(input.revision)
        earlier = get_stored_instance(RECEIPTS, context, receipt)
        if earlier is not None:
            return APPLIED if earlier.request_id == input.request_id else ALREADY_DONE
        if CLOSING.get(context):
            return SESSION_CLOSING
        record = get_stored(RECORD, context)
        plan = approve_plan(get_stored(PLAN, context), input.revision)
        if plan is None or record is None or record.turn is not None:
            return ALREADY_DONE
        PLAN.set(context, plan)
        RECEIPTS.set(context, map_instance(receipt), CommandReceipt(input.request_id, self._runtime.clock()))
        text = texts.plan_approved(plan.revision)
        message = SendUserMessageRequest(input.request_id, text, input.request_id)
        return self._begin(context, message, approved_plan=plan.revision)

    @rpc(lock_attributes=(SETTINGS.lock(),))
    def update_session_settings(
        self, context: Context, input: UpdateSessionSettingsRequest
    ) -> RPCResult[CommandReply]:
        """Replace the settings; the next model call uses them."""
        if CLOSING.get(context):
            return SESSION_CLOSING
        before = get_stored(SETTINGS, context)
        if before is None or before.values != input.settings:
            revision = 1 if before is None else before.revision + 1
            SETTINGS.set(context, SessionSettings(input.settings, revision))
        return APPLIED

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(INBOX,))
    def cancel_turn(self, context: Context, input: CancelTurnRequest) -> RPCResult[CommandReply]:
        """End the running turn."""
        cancelled = get_stored(TURN_GATE, context)
        if cancelled is not None and cancelled.request_id == input.request_id:
            # A repeat after a lost reply; the turn may have ended since.
            return APPLIED
        record = get_stored(RECORD, context)
        turn = None if record is None else record.turn
        if turn is None or (input.turn_id is not None and turn.turn_id != input.turn_id):
            return ALREADY_DONE
        if is_cancelled(context, turn.number):
            return ALREADY_DONE
        return self._begin_cancelling(context, turn, input.request_id)

    @rpc(lock_attributes=(TURN_GATE.lock(),), load_channels=(INBOX,))
    def close_session(self, context: Context, input: CloseSessionRequest) -> RPCResult[CommandReply]:
        """End the session; a running turn is cancelled first."""
        if CLOSING.get(context):
            return ALREADY_DONE
        CLOSING.set(context, True)
        WAKE_UPS.publish(context, WakeUp())
        record = get_stored(RECORD, context)
        turn = None if record is None else record.turn
        if turn is None or is_cancelled(context, turn.number):
            return APPLIED
        return self._begin_cancelling(context, turn, input.request_id)

    def _refuse(self, context: Context, input: SendUserMessageRequest) -> RPCResult[CommandReply] | None:
        earlier = get_stored_instance(RECEIPTS, context, message_receipt_id(input.message_id))
        if earlier is not None:
            return APPLIED if earlier.request_id == input.request_id else ALREADY_DONE
        if CLOSING.get(context):
            return SESSION_CLOSING
        if input.plan_mode and not self._runtime.options.plan_mode_enabled:
            return invalid("plan_mode", "this agent has no plan mode")
        refused_images = find_image_refusal(self._runtime.runner, input.images)
        if refused_images is not None:
            return invalid(refused_images.field, refused_images.problem)
        refusal = find_text_refusal(self._runtime.runner, input.text)
        return None if refusal is None else invalid("text", refusal)

    def _begin(
        self, context: Context, input: SendUserMessageRequest, *, approved_plan: int | None = None
    ) -> RPCResult[CommandReply]:
        # With a wake-up something may be queued that comes first. The engine refuses to delete a token that
        # was taken meanwhile, and the command is made again.
        tokens, record = IDLE.pending_messages(context), get_stored(RECORD, context)
        if not tokens or record is None or WAKE_UPS.size(context):
            return self._accept(context, input, approved_plan=approved_plan)
        IDLE.delete(context, tokens[0].message_id)
        message = self._receive(context, input, approved_plan=approved_plan)
        movement = take_message(self._runtime, self._graph, context, record, message)
        return RPCResult(CommandReply("applied"), next_steps=(movement,))

    def _accept(
        self,
        context: Context,
        input: SendUserMessageRequest,
        *,
        steering: bool = False,
        approved_plan: int | None = None,
    ) -> RPCResult[CommandReply]:
        message = self._receive(context, input, steering=steering, approved_plan=approved_plan)
        INBOX.publish(context, InboxItem(message=message))
        WAKE_UPS.publish(context, WakeUp())
        STATUS.set(context, "running")
        return APPLIED

    def _receive(
        self,
        context: Context,
        input: SendUserMessageRequest,
        *,
        steering: bool = False,
        approved_plan: int | None = None,
    ) -> QueuedMessage:
        now = self._runtime.clock()
        receipt = map_instance(message_receipt_id(input.message_id))
        RECEIPTS.set(context, receipt, CommandReceipt(input.request_id, now))
        return QueuedMessage(
            input.message_id,
            input.text,
            now,
            plan_mode=input.plan_mode,
            steering=steering,
            approved_plan=approved_plan,
            images=input.images,
        )

    def _begin_cancelling(
        self, context: Context, turn: AgentTurnState, request_id: str
    ) -> RPCResult[CommandReply]:
        # The caller holds the lock of the gate, so no other turn can begin before this is committed.
        load_inbox(context).end_turn(context)
        TURN_GATE.set(context, CancelledTurn(turn.number, request_id))
        return RPCResult(
            CommandReply("applied"),
            next_steps=(self._graph.cancel_turn(turn),),
            canceling_steps=self._graph.steps_of_a_turn,
        )
