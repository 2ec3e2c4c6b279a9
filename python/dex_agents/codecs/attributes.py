"""Codecs for everything a session stores or sends: JSON text with a format number in front.

Every value is one JSON object whose first key is `format`. A reader takes any value whose format it knows,
ignores fields it does not know and fills in fields that are missing; a newer format, or a variant it has
never heard of, raises `WireFormatError` instead of a guess. Whatever reads it is tried again later, on a
Worker that knows more, so a rolling upgrade loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from dex import Codec, CodecRegistry, Registry, Value, WireKind
from dex import Flow as DexFlow

from dex_agents.errors import WireFormatError
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import MessageChunk, QueuedMessage
from dex_agents.wire.plans import AgentPlan
from dex_agents.wire.rpc_values import (
    AnswerQuestionRequest,
    ApprovePlanRequest,
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    QueuedMessages,
    ResolveInterruptRequest,
    SendUserMessageRequest,
    SettleToolOutcomeRequest,
    UpdateSessionSettingsRequest,
    WithdrawMessageRequest,
)
from dex_agents.wire.sessions import SessionRecord, SessionSummary
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
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.step_inputs import IdleStepInput, SessionStepInput, ToolStepInput, TurnStepInput
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["CURRENT_FORMAT", "StructCodec", "build_session_registry", "session_codecs"]

StructT = TypeVar("StructT", bound=msgspec.Struct)

CURRENT_FORMAT: Final = 1
"""The layout that this version writes, and the newest one that it reads."""

_PREFIX: Final = f'{{"format":{CURRENT_FORMAT}'
_STORED_STRUCTS: Final[tuple[type[msgspec.Struct], ...]] = (
    AgentInterrupt,
    AgentPlan,
    AgentSnapshot,
    AgentToolCall,
    AnswerQuestionRequest,
    ApprovePlanRequest,
    CancelTurnRequest,
    CancelledTurn,
    CloseSessionRequest,
    CommandReceipt,
    CommandReply,
    ContextSummary,
    FinishedToolCall,
    IdleToken,
    InboxItem,
    IdleStepInput,
    MessageChunk,
    QueuedMessage,
    QueuedMessages,
    ResolveInterruptRequest,
    SendUserMessageRequest,
    SessionProgress,
    SessionRecord,
    SessionSettings,
    SessionStepInput,
    SessionSummary,
    SettleToolOutcomeRequest,
    ToolDecision,
    ToolStepInput,
    TurnStepInput,
    UpdateSessionSettingsRequest,
    WakeUp,
    WithdrawMessageRequest,
)


class _FormatOnly(msgspec.Struct, frozen=True):
    format: int | None = None


class StructCodec(Generic[StructT]):
    """Writes and reads one Struct type as JSON text that begins with its format number."""

    def __init__(self, struct_type: type[StructT]) -> None:
        """Create the codec.

        Args:
            struct_type: A frozen Struct of `dex_agents.wire` without a field named `format`.
        """
        self._name = struct_type.__name__
        self._struct_type = struct_type
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(struct_type)

    @property
    def type_name(self) -> str:
        """The name used in the SDK's own errors."""
        return self._name

    @property
    def wire_kind(self) -> WireKind:
        """Always JSON."""
        return WireKind.JSON

    def encode(self, value: StructT) -> Value:
        """Write a value.

        Raises:
            TypeError: `value` is not of this codec's type.
        """
        if type(value) is not self._struct_type:
            raise TypeError(f"{self._name} expected, not {type(value).__name__}")
        body = self._encoder.encode(value).decode()
        return Value(WireKind.JSON, f"{_PREFIX}}}" if body == "{}" else f"{_PREFIX},{body[1:]}")

    def decode(self, value: Value) -> StructT:
        """Read a value.

        Raises:
            WireFormatError: It was written by a newer version, or is not a value of this type.
        """
        data = value.data
        if not isinstance(data, str):
            raise WireFormatError(self._name, "the stored value is not JSON text")
        if not data.startswith((f"{_PREFIX},", f"{_PREFIX}}}")):
            self._require_known_format(data)
        try:
            return self._decoder.decode(data)
        except msgspec.DecodeError as error:
            raise WireFormatError(self._name, str(error)) from error

    def _require_known_format(self, data: str) -> None:
        try:
            found = msgspec.json.decode(data, type=_FormatOnly).format
        except msgspec.DecodeError as error:
            raise WireFormatError(self._name, str(error), field="format") from error
        if found is None:
            raise WireFormatError(self._name, "the format number is missing", field="format")
        if found > CURRENT_FORMAT:
            raise WireFormatError(
                self._name,
                f"written in format {found} by a newer version; this version reads up to {CURRENT_FORMAT}",
                field="format",
                found_version=found,
            )


def session_codecs() -> dict[object, Codec[Any]]:
    """Return the codecs that a `dex.CodecRegistry` needs to host session Flows."""
    return {struct_type: StructCodec(struct_type) for struct_type in _STORED_STRUCTS}


def build_session_registry(
    *flows: DexFlow[Any], codecs: Mapping[object, Codec[Any]] | None = None
) -> Registry:
    """Return a Registry that hosts session Flows, next to other Flows if there are any.

    Args:
        flows: Flow instances with different Flow types.
        codecs: Codecs of the other Flows.
    """
    return Registry(
        list(flows), CodecRegistry({**(codecs or {}), **session_codecs()}), allow_async_handlers=True
    )
