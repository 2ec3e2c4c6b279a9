"""Where a session's state lives: Attributes, maps, Channels, and the Stream of events.

Plain Attributes travel with every Step, so they are small. What grows with the session is in maps, of which a
Step loads only the instances that it names.
"""

from __future__ import annotations

from typing import Final, TypeVar, cast
from urllib.parse import quote

from dex import (
    Attribute,
    AttributeIndex,
    AttributeMap,
    Channel,
    ChannelMap,
    Context,
    IndexType,
    PersistenceSchema,
    Stream,
)

from dex_agents.wire.context import ContextSummary
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import MessageChunk
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.sessions import SessionRecord
from dex_agents.wire.settings import SessionSettings
from dex_agents.wire.signals import (
    CancelledTurn,
    CommandReceipt,
    FinishedToolCall,
    IdleToken,
    InboxItem,
    ToolDecision,
    WakeUp,
)
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "CLOSING",
    "CONTEXT_SUMMARY",
    "EARLIER_WRITES",
    "FINISHED_CALLS",
    "IDLE",
    "INBOX",
    "INTERRUPTS",
    "LATEST_SUMMARY",
    "MESSAGES",
    "MILESTONE",
    "PLAN",
    "RECEIPTS",
    "RECORD",
    "SETTINGS",
    "STATUS",
    "TOOL_CALLS",
    "TOOL_DECISIONS",
    "TURN_GATE",
    "WAKE_UPS",
    "build_event_stream",
    "build_schema",
    "chunk_instance",
    "get_stored",
    "get_stored_instance",
    "map_instance",
    "message_receipt_id",
    "plan_receipt_id",
    "response_instance",
    "settlement_receipt_id",
]

STATUS: Final = Attribute("status", str, AttributeIndex(IndexType.KEYWORD, "AgentSessionStatus"))
"""`idle`, `running` or `closed`; searchable. May say `idle` for a moment when a message arrives just as a
turn ends; with an empty inbox it is exact."""

RECORD: Final = Attribute("session", SessionRecord)
"""Written by one Step at a time: whichever holds the turn."""

MILESTONE: Final = Attribute("milestone", int)
"""Grows whenever a turn ends or questions are opened, so that a client can wait for either; missing until the
session has begun."""

TURN_GATE: Final = Attribute("cancelled_turn", CancelledTurn)
"""The latest turn that was asked to cancel. Commands about the running turn lock it, and so does whatever
begins one: a cancellation never stops the wrong turn's Steps, and never crosses an approval."""

CLOSING: Final = Attribute("closing", bool)
"""Set once the session was asked to end: from then on it accepts nothing."""

PLAN: Final = Attribute("plan", AgentPlan)
"""The latest plan. Written by the Step that holds the turn, and between turns by whoever approves it."""

SETTINGS: Final = Attribute("session_settings", SessionSettings)

MESSAGES: Final = AttributeMap("messages", MessageChunk)
TOOL_CALLS: Final = AttributeMap("tool_calls", AgentToolCall)

CONTEXT_SUMMARY: Final = AttributeMap("context_summary", ContextSummary)
"""One instance, `LATEST_SUMMARY`: in a map, because it is too large to travel with every Step."""

LATEST_SUMMARY: Final = "latest"

INTERRUPTS: Final = AttributeMap("interrupts", AgentInterrupt)
"""Open ones only."""

RECEIPTS: Final = AttributeMap("command_receipts", CommandReceipt)
"""By message ID or interrupt ID: that the command about it took effect, and whose call it was."""

INBOX: Final = Channel("inbox", InboxItem)
"""What was accepted and is not stored yet, in its order, and the token of the running turn, which whatever
ends or cancels the turn deletes. A command or Step that comes too late finds what it wanted to delete gone,
which the engine refuses: nothing is committed and it is made again.

No Step waits on it: a wait would take a message before its turn is committed, and for that moment the message
would be nowhere to be seen. It is one Channel, and loaded alone: see decision 16."""

WAKE_UPS: Final = Channel("wake_ups", WakeUp)
"""At least one for every message in the inbox."""

IDLE: Final = Channel("idle", IdleToken)
"""Holds one token while no turn runs and nobody is about to begin one. `AwaitUserMessage` takes it together
with a wake-up; a command that begins a turn itself deletes it. While it is there and no wake-up is, nothing
is queued."""

TOOL_DECISIONS: Final = ChannelMap("tool_decisions", ToolDecision)
EARLIER_WRITES: Final = ChannelMap("earlier_writes", ToolDecision)
FINISHED_CALLS: Final = ChannelMap("finished_calls", FinishedToolCall)


ValueT = TypeVar("ValueT")


def get_stored(attribute: Attribute[ValueT], context: Context) -> ValueT | None:
    """Return an Attribute's value, or `None` when it was never set, which the SDK's signature leaves out."""
    return cast("ValueT | None", attribute.get(context))


def get_stored_instance(attributes: AttributeMap[ValueT], context: Context, identifier: str) -> ValueT | None:
    """Return the value under an ID, whose map instance must be loaded, or `None` when there is none."""
    return cast("ValueT | None", attributes.get(context, map_instance(identifier)))


def build_event_stream(capacity_bytes: int) -> Stream[str]:
    """Return the Stream of events; the SDK wants one object for each Flow type."""
    return Stream("events", str, capacity_bytes)


def build_schema(events: Stream[str]) -> PersistenceSchema:
    """Return everything that a session Flow stores."""
    return PersistenceSchema.of(
        STATUS,
        RECORD,
        MILESTONE,
        TURN_GATE,
        CLOSING,
        PLAN,
        SETTINGS,
        MESSAGES,
        TOOL_CALLS,
        CONTEXT_SUMMARY,
        INTERRUPTS,
        RECEIPTS,
        INBOX,
        WAKE_UPS,
        IDLE,
        TOOL_DECISIONS,
        EARLIER_WRITES,
        FINISHED_CALLS,
        events,
    )


def map_instance(identifier: str) -> str:
    """Return the key of a map instance for an ID that a model or a client chose; the SDK refuses `/`."""
    return quote(identifier, safe=":#@ ")


def message_receipt_id(message_id: str) -> str:
    """Return the ID of a message's receipt, which is never that of an interrupt."""
    return f"message:{message_id}"


def plan_receipt_id(revision: int) -> str:
    """Return the ID of the receipt of an approved plan."""
    return f"plan:{revision}"


def settlement_receipt_id(tool_call_id: str) -> str:
    """Return the ID of the receipt of a settled outcome, which is never that of an interrupt."""
    return f"settled:{tool_call_id}"


def chunk_instance(first_sequence: int) -> str:
    """Return the key of a message chunk; keys sort as the messages do."""
    return f"{first_sequence:012d}"


def response_instance(turn_number: int, response_index: int) -> str:
    """Return the key under which the calls of one model response report that they are final."""
    return f"{turn_number}.{response_index}"
