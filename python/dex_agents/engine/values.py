"""Wire values and durable names: what is accepted, what is stored apart, and what must stay inline.

A value above `BLOB_THRESHOLD_BYTES` is stored once in the blob table and replaced by its ID, so that state,
the journal and Worker requests carry a few bytes instead. A blob ID tells its own kind, because a client may
have to load one without knowing which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument

BLOB_THRESHOLD_BYTES = 32 * 1024
"""Payloads above this many bytes live in the blob table."""

BLOB_GRACE_SECONDS = 600.0
"""How long a payload can still be loaded after its value was overwritten: a Worker or client may just have
been sent its ID."""

MAX_INLINE_BYTES = 3_500_000
"""The largest value that must travel inline: the SDK keeps gRPC's receive limit of 4 MiB."""

MAX_FLOW_ID_BYTES = 1000
"""The longest Flow ID, in UTF-8 bytes."""

BlobKind = Literal["string", "object"]

_BLOB_PREFIXES: dict[BlobKind, str] = {"string": "s", "object": "o"}
_RESERVED_CHARACTERS = frozenset("/$:")


@dataclass(frozen=True, slots=True)
class Blob:
    """A large payload on its way to the blob table.

    Attributes:
        number: Row number, unique in its database.
        kind: How the payload is spelled: UTF-8 text or a serialised `EncodedObject`.
        payload: The bytes, immutable for ever.
        copied_from: Row number of the blob that it is a copy of, in which case `payload` is empty; or 0.
    """

    number: int
    kind: BlobKind
    payload: bytes
    copied_from: int = 0


class BlobNumbers:
    """Hands out blob IDs of one database.

    An ID is 25 characters: the kind, the database in 8 hexadecimal digits (so that a cache that outlives a
    database never answers for the next one) and the row number in 16.
    """

    def __init__(self, database_id: str, last_number: int) -> None:
        self._database_id = database_id
        self._last = last_number

    def next_number(self) -> int:
        """Return a row number that was never used in this database."""
        self._last += 1
        return self._last

    def build_id(self, kind: BlobKind, number: int) -> str:
        """Return the ID that stands for a row."""
        return f"{_BLOB_PREFIXES[kind]}{self._database_id}{number:016x}"

    def parse_id(self, blob_id: str) -> tuple[BlobKind, int] | None:
        """Return kind and row number of an ID, or `None` for one that is not of this database."""
        if len(blob_id) != 25 or blob_id[1:9] != self._database_id:
            return None
        for kind, prefix in _BLOB_PREFIXES.items():
            if blob_id[0] == prefix:
                try:
                    return kind, int(blob_id[9:], 16)
                except ValueError:
                    return None
        return None


def validate_value(value: pb.Value, field: str) -> None:
    """Require a value that a client or a Worker may send.

    Raises:
        ServiceError: The value is unset, is a blob ID or a number that is not finite.
    """
    kind = value.WhichOneof("kind")
    if kind is None:
        raise invalid_argument(field, "a value must be set")
    if kind == "double_value" and not math.isfinite(value.double_value):
        raise invalid_argument(field, "a number must be finite")
    if kind in {"internal_blob_id_for_string_value", "internal_blob_id_for_obj_value"}:
        raise invalid_argument(field, "a blob ID must not be sent to the engine")


def validate_inline_size(value: pb.Value, field: str) -> None:
    """Require a value that fits where only inline values may travel.

    Raises:
        ServiceError: The value is larger than `MAX_INLINE_BYTES`.
    """
    size = value.ByteSize()
    if size > MAX_INLINE_BYTES:
        raise invalid_argument(field, f"{size} bytes are above the limit of {MAX_INLINE_BYTES}")


def validate_flow_id(flow_id: str, field: str = "flow_id") -> None:
    """Require a usable Flow ID.

    Raises:
        ServiceError: It is empty, too long or holds one of the reserved characters `/`, `$` and `:`.
    """
    _validate_name(flow_id, field)
    size = len(flow_id.encode())
    if size > MAX_FLOW_ID_BYTES:
        raise invalid_argument(field, f"{size} bytes are above the limit of {MAX_FLOW_ID_BYTES}")


def validate_step_type(step_type: str, field: str) -> None:
    """Require a usable Step type.

    Raises:
        ServiceError: It is empty or holds one of the reserved characters `/`, `$` and `:`.
    """
    _validate_name(step_type, field)


def read_blob_id(value: pb.Value) -> str:
    """Return the ID of the blob that a value stands for, or `""` for a value that is itself."""
    kind = value.WhichOneof("kind")
    if kind == "internal_blob_id_for_obj_value":
        return value.internal_blob_id_for_obj_value
    return value.internal_blob_id_for_string_value if kind == "internal_blob_id_for_string_value" else ""


def is_null(value: pb.Value) -> bool:
    """Tell whether a value is the null that deletes an Attribute."""
    return value.HasField("null_value")


def read_scalar(value: pb.Value) -> str | int | float | bool | None:
    """Return the scalar in a value, or `None` when it holds something else."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _validate_name(name: str, field: str) -> None:
    if not name:
        raise invalid_argument(field, "must not be empty")
    if not _RESERVED_CHARACTERS.isdisjoint(name):
        raise invalid_argument(field, "must not contain '/', '$' or ':'")
