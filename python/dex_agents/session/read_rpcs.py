"""Reads of a session, each as of one commit; they also answer after the session closed."""

from __future__ import annotations

from dex import Context, RPCResult, rpc

from dex_agents.session.persistence import (
    CONTEXT_SUMMARY,
    INBOX,
    INTERRUPTS,
    MESSAGES,
    MILESTONE,
    PLAN,
    RECORD,
    SETTINGS,
    STATUS,
    TOOL_CALLS,
    get_stored,
)
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.steps.inbox import load_inbox
from dex_agents.session.steps.turn_loading import load_messages, load_summary
from dex_agents.wire.rpc_values import QueuedMessages
from dex_agents.wire.sessions import SessionRecord, SessionStatus
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["ReadRpcs"]


class ReadRpcs:
    """The reading RPCs of a session Flow; the names are wire names."""

    _runtime: SessionRuntime

    @rpc(
        load_attribute_maps=(MESSAGES, TOOL_CALLS, CONTEXT_SUMMARY, INTERRUPTS),
        load_channels=(INBOX,),
    )
    def get_agent_snapshot(self, context: Context) -> RPCResult[AgentSnapshot]:
        """Return everything, as of one commit."""
        progress = _progress(context)
        record = _record(context, self._runtime)
        calls = [TOOL_CALLS.get(context, key) for key in TOOL_CALLS.get_all_instance_keys(context)]
        settings = get_stored(SETTINGS, context)
        return RPCResult(
            AgentSnapshot(
                session_id=context.flow_id,
                status=progress.status,
                turn_count=record.turn_count,
                messages=load_messages(context),
                tool_calls=_in_asked_order(calls),
                interrupts=progress.interrupts,
                queued_messages=load_inbox(context).messages,
                usage=record.usage,
                started_at=record.started_at,
                turn_id=progress.turn_id,
                last_turn_outcome=record.last_turn_outcome,
                last_turn_error=record.last_turn_error,
                plan=get_stored(PLAN, context),
                session_settings={} if settings is None else settings.values,
                context_summary=load_summary(context, record),
                dropped_messages=record.dropped_messages,
                response_index=0 if record.turn is None else record.turn.response_index,
                settings_revision=record.settings_revision,
            )
        )

    @rpc(load_attribute_maps=(INTERRUPTS,), load_channels=(INBOX,))
    def get_progress(self, context: Context) -> RPCResult[SessionProgress]:
        """Return where the session stands, at a cost that does not grow with it."""
        return RPCResult(_progress(context))

    @rpc(load_channels=(INBOX,))
    def list_queued_messages(self, context: Context) -> RPCResult[QueuedMessages]:
        """Return what no turn has taken."""
        return RPCResult(QueuedMessages(load_inbox(context).messages))


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
    milestone = get_stored(MILESTONE, context)
    return SessionProgress(
        status=status,
        turn_count=0 if record is None else record.turn_count,
        milestone=-1 if milestone is None else milestone,
        queued_message_count=len(load_inbox(context).messages),
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
