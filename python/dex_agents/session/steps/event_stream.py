"""Live events of one Step attempt, joined and sent in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

import msgspec
from dex import AsyncContext

from dex_agents.codecs.events import encode_events
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.limits import MAX_EVENT_TEXT_BYTES
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.state import TurnView
from dex_agents.session.transitions.turns import describe_beginning
from dex_agents.wire.events import AgentEvent, ReasoningDelta, TextDelta, ToolCallProgress

__all__ = ["StepEvents", "step_events"]

_FLUSH_SECONDS: Final = 0.05
"""A viewer sees text at most this late; a faster model costs no more Stream messages."""

_BATCH_CHARACTERS: Final = 32 * 1024
"""A Stream message stays far below the 4 MiB that a Dex client can receive."""

_LAST_ANNOUNCEMENT: Final = 1000
"""Above every number of attempts that a model call has."""


class StepEvents:
    """The `AgentEventWriter` of one Step attempt.

    Writing never waits. What is written after `close` is dropped.

    Durability:
        Events reach viewers before the Step commits. When the attempt is lost, the next one writes them again
        under its higher attempt number.
    """

    def __init__(
        self, context: AsyncContext, runtime: SessionRuntime, turn_id: str | None, response_index: int = 0
    ) -> None:
        """Bind the events to a Step attempt; see `step_events`."""
        self._context = context
        self._stream = runtime.events
        self._turn_id = turn_id
        self._response_index = response_index
        self._streamed: list[str] = []
        self._clock = runtime.clock
        self._seq = 0
        self._batch: list[AgentEvent] = []
        self._characters = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def announce_turn(self, view: TurnView, *, for_good: bool) -> None:
        """Tell viewers that a turn has begun.

        Whoever begins a turn may not be able to write to the Stream, so the first Step after that does, and
        the one that ends a turn without a model response. Under one name, so that of several announcements
        the latest counts.

        Args:
            view: The turn.
            for_good: The turn ends with this Step, so no other announcement may follow.
        """
        named = f"{view.turn.turn_id} begins"
        attempt = self._context.attempt + (_LAST_ANNOUNCEMENT if for_good else 0)
        for event in describe_beginning(view):
            self._write(event, named, attempt)

    def begin_response(self, response_index: int) -> None:
        """Let what is written from now on belong to a response of the turn that is not stored yet."""
        self._response_index = response_index

    def write(self, event: AgentEvent) -> None:
        """Write one event; texts beyond `limits.MAX_EVENT_TEXT_BYTES` are cut in it."""
        self._write(event, self._context.step_execution_id, self._context.attempt)

    def _write(self, event: AgentEvent, step: str, attempt: int) -> None:
        if self._closed:
            return
        self._seq += 1
        weight = _weight(event)
        # Nearly no event comes near the limit, and the weight is needed anyway.
        framed = msgspec.structs.replace(
            event if weight * 4 <= MAX_EVENT_TEXT_BYTES else _cut(event),
            seq=self._seq,
            attempt=attempt,
            step=step,
            at=self._clock(),
            turn_id=event.turn_id or self._turn_id,
            response_index=event.response_index or self._response_index,
        )
        self._batch.append(framed)
        self._characters += min(weight, MAX_EVENT_TEXT_BYTES)
        self._schedule()

    def write_all(self, events: Iterable[AgentEvent]) -> None:
        """Write events in order."""
        for event in events:
            self.write(event)

    @property
    def streamed_text(self) -> str:
        """The text of the answer as viewers of this attempt have it."""
        return replace_lone_surrogates("".join(self._streamed))

    def write_text_delta(self, text: str) -> None:
        """Add text to the answer that is being given."""
        if not self._closed:
            self._streamed.append(text)
        self._write_delta(TextDelta, text)

    def write_reasoning_delta(self, text: str) -> None:
        """Add text to the visible reasoning."""
        self._write_delta(ReasoningDelta, text)

    def write_tool_progress(self, tool_call_id: str, text: str) -> None:
        """Report how a tool call is getting on."""
        if text:
            self.write(ToolCallProgress(tool_call_id=tool_call_id, text=text))

    def close(self) -> None:
        """Send what is left and take no more."""
        self._flush()
        self._closed = True

    def _write_delta(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if not text or self._closed:
            return
        last = self._batch[-1] if self._batch else None
        if isinstance(last, kind) and len(last.text) + len(text) <= _BATCH_CHARACTERS:
            self._batch[-1] = msgspec.structs.replace(last, text=last.text + text)
            self._characters += len(text)
            self._schedule()
        else:
            for start in range(0, len(text), _BATCH_CHARACTERS):
                self.write(kind(text=text[start : start + _BATCH_CHARACTERS]))

    def _schedule(self) -> None:
        if self._characters >= _BATCH_CHARACTERS:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._batch and not self._closed:
            message = encode_events(self._batch)
            self._batch, self._characters = [], 0
            self._stream.write(self._context, message)


@contextmanager
def step_events(
    context: AsyncContext, runtime: SessionRuntime, turn_id: str | None, response_index: int = 0
) -> Generator[StepEvents, None, None]:
    """Yield the events of a Step attempt, and send what is left when the block ends.

    Args:
        context: The attempt.
        runtime: The session Flow.
        turn_id: The turn that events without one of their own belong to.
        response_index: The same for the response of the turn.
    """
    events = StepEvents(context, runtime, turn_id, response_index)
    try:
        yield events
    finally:
        events.close()


def _weight(event: AgentEvent) -> int:
    """Return about how many characters an event takes, and at least those of every text that `_cut` cuts."""
    size = 200
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, msgspec.Struct):
            inner = (getattr(value, field) for field in value.__struct_fields__)
            size += sum(len(text) for text in inner if isinstance(text, str))
    return size


def _cut(event: AgentEvent) -> AgentEvent:
    changes: dict[str, object] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str) and len(value) * 4 > MAX_EVENT_TEXT_BYTES:
            changes[name] = _cut_text(value)
        elif isinstance(value, msgspec.Struct):
            inner = {
                field: _cut_text(text)
                for field in value.__struct_fields__
                if isinstance(text := getattr(value, field), str) and len(text) * 4 > MAX_EVENT_TEXT_BYTES
            }
            if inner:
                changes[name] = msgspec.structs.replace(value, **inner)
    return msgspec.structs.replace(event, **changes) if changes else event


def _cut_text(text: str) -> str:
    # A lone surrogate has no UTF-8 length, so the cut is made on what can be sent.
    return cut_to_bytes(text.encode("utf-8", "replace").decode(), MAX_EVENT_TEXT_BYTES)
