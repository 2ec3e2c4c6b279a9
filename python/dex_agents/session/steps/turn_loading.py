"""The *load* half of a Step: Attributes to the values that transitions decide on."""

from __future__ import annotations

from dex import Context

from dex_agents.errors import WireFormatError
from dex_agents.session.persistence import (
    CONTEXT_SUMMARY,
    LATEST_SUMMARY,
    MESSAGES,
    PLAN,
    RECORD,
    TOOL_CALLS,
    chunk_instance,
    get_stored,
    get_stored_instance,
)
from dex_agents.session.state import TurnView
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.messages import AgentMessage
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["load_messages", "load_record", "load_summary", "load_tool_call", "load_turn"]


def load_record(context: Context) -> SessionRecord:
    """Return the session's record.

    Raises:
        WireFormatError: There is none: the Flow was not started as a session.
    """
    record = get_stored(RECORD, context)
    if record is None:
        raise WireFormatError("SessionRecord", "the session has no record")
    return record


def load_messages(context: Context) -> tuple[AgentMessage, ...]:
    """Return every stored message in order; the message map must be loaded."""
    chunks = (MESSAGES.get(context, key) for key in MESSAGES.get_all_instance_keys(context))
    return tuple(message for chunk in chunks for message in chunk.messages)


def load_tool_call(context: Context, tool_call_id: str) -> AgentToolCall:
    """Return a call's record, whose map instance must be loaded.

    Raises:
        WireFormatError: There is none.
    """
    call = get_stored_instance(TOOL_CALLS, context, tool_call_id)
    if call is None:
        raise WireFormatError("AgentToolCall", f"the call {tool_call_id!r} has no record")
    return call


def load_summary(context: Context, record: SessionRecord) -> ContextSummary | None:
    """Return the summary of the earlier conversation, whose map instance must be loaded if there is one."""
    if not record.summary_revision:
        return None
    return get_stored_instance(CONTEXT_SUMMARY, context, LATEST_SUMMARY)


def load_turn(context: Context, turn_number: int) -> TurnView | None:
    """Return the running turn, or `None` when that turn does not run any more.

    What `FlowGraph` names for a model call must be loaded.
    """
    record = load_record(context)
    turn = record.turn
    if turn is None or turn.number != turn_number:
        return None
    chunks = record.chunks or tuple(int(key) for key in MESSAGES.get_all_instance_keys(context))
    messages = (message for key in chunks for message in MESSAGES.get(context, chunk_instance(key)).messages)
    return TurnView(
        record=record,
        turn=turn,
        messages=tuple(message for message in messages if message.sequence > record.covered_through),
        tool_calls=tuple(load_tool_call(context, one) for one in turn.tool_call_ids),
        summary=load_summary(context, record),
        chunks=chunks,
        plan=get_stored(PLAN, context),
    )
