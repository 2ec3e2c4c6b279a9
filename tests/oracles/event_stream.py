"""A reader of event streams, as the HTML standard writes it down: incremental, and in no hurry.

Bytes may come in pieces cut anywhere: inside a character, or between the CR and the LF of one line end.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    data: str
    last_event_id: str
    name: str


class EventStreamReader:
    """Feed it bytes; it gives the events that are whole."""

    def __init__(self) -> None:
        # The standard's "UTF-8 decode": one leading BOM is dropped, what is malformed is replaced.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line = ""
        self._after_cr = False
        self._data: list[str] = []
        self._id = ""
        self._name = ""
        self.last_event_id = ""
        self.comments: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        for character in self._decoder.decode(chunk):
            if character == "\n" and self._after_cr:
                self._after_cr = False
                continue
            self._after_cr = character == "\r"
            if character in "\r\n":
                line, self._line = self._line, ""
                events.extend(self._end_line(line))
            else:
                self._line += character
        return events

    def _end_line(self, line: str) -> list[ServerSentEvent]:
        if line == "":
            return self._dispatch()
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "" and colon:
            self.comments.append(value)
        elif field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return []

    def _dispatch(self) -> list[ServerSentEvent]:
        self.last_event_id = self._id
        data, name = self._data, self._name
        self._data, self._name = [], ""
        # A data buffer that is the empty string dispatches nothing; one with an empty line in it does.
        if not data:
            return []
        return [ServerSentEvent("\n".join(data), self._id, name or "message")]


def read_events(stream: bytes, *, step: int = 1) -> list[ServerSentEvent]:
    """Read a whole stream in pieces of `step` bytes."""
    reader = EventStreamReader()
    pieces = (stream[start : start + step] for start in range(0, len(stream), step))
    return [event for piece in pieces for event in reader.feed(piece)]
