"""Values that are too large for one message, kept for the moment until their receiver has fetched them.

A Dex client receives at most 4 MiB in one message. An RPC may answer with more, such as the snapshot of a
long session, and a Worker may be sent more, such as all messages of one. Such a value travels as a blob ID,
which the SDK resolves by `LoadBlobs`. It is not state: it is kept in memory only, and its IDs are never those
of stored blobs.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Callable

from dex.dexpb import dex_pb2 as pb

INLINE_REPLY_BYTES = 1024 * 1024
"""Answers up to this size travel inline."""

KEPT_SECONDS = 60.0
"""A client asks for the answer at once; this is for a slow one."""

KEPT_BYTES = 512 * 1024 * 1024
"""When all kept answers together exceed this, the oldest go first."""


class LargeReplies:
    """Large answers by ID, for a short time."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Create an empty store.

        Args:
            now: Seconds on a clock that only goes forward.
        """
        self._now = now
        self._kept: OrderedDict[str, tuple[float, pb.Value, int]] = OrderedDict()
        self._bytes = 0

    def wrap(self, answer: pb.Value) -> pb.Value:
        """Return the answer itself, or the ID under which it is kept."""
        return self._keep(answer, uuid.uuid4().hex[:24]) if answer.ByteSize() > INLINE_REPLY_BYTES else answer

    def keep(self, value: pb.Value) -> pb.Value:
        """Return the ID under which a text or object is kept: the same for the same content.

        So a Worker that caches what it fetched fetches a value once, however often it is sent.
        """
        content = value.SerializeToString(deterministic=True)
        return self._keep(value, hashlib.sha256(content).hexdigest()[:24])

    def find(self, wrapped: pb.Value) -> pb.Value | None:
        """Return the answer behind an ID, or `None` when it is not kept or of the other kind."""
        self._forget_old()
        reply_id = wrapped.internal_blob_id_for_string_value or wrapped.internal_blob_id_for_obj_value
        kept = self._kept.get(reply_id)
        if kept is None or reply_id[0] != ("t" if wrapped.internal_blob_id_for_string_value else "u"):
            return None
        return kept[1]

    def _keep(self, value: pb.Value, name: str) -> pb.Value:
        match value.WhichOneof("kind"):
            case "string_value":
                reply_id = f"t{name}"
                wrapped = pb.Value(internal_blob_id_for_string_value=reply_id)
            case "obj_value":
                reply_id = f"u{name}"
                wrapped = pb.Value(internal_blob_id_for_obj_value=reply_id)
            case _:
                return value
        replaced = self._kept.pop(reply_id, None)
        size = value.ByteSize()
        self._kept[reply_id] = (self._now() + KEPT_SECONDS, value, size)
        self._bytes += size - (0 if replaced is None else replaced[2])
        self._forget_old(keep=reply_id)
        return wrapped

    def _forget_old(self, keep: str | None = None) -> None:
        while self._kept:
            reply_id, (deadline, _, size) = next(iter(self._kept.items()))
            if reply_id == keep or (deadline > self._now() and self._bytes <= KEPT_BYTES):
                return
            del self._kept[reply_id]
            self._bytes -= size
