"""What a search key stores for an Attribute value, by the type of the index."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import Cell
from dex_agents.engine.values import read_scalar

MAX_INDEX_ROWS = 256
"""Words or elements of one value that are searchable; the rest are not."""

_WORD = re.compile(r"\w+")


def build_index_contents(index_type: int, value: pb.Value) -> list[Cell]:
    """Return the searchable contents of a value, one for each index row.

    A value that does not fit the type of its index has none: it is stored, and not found.
    """
    if index_type == pb.INDEX_TYPE_KEYWORD_ARRAY:
        return list[Cell](_read_strings(value)[:MAX_INDEX_ROWS])
    scalar = read_scalar(value)
    if scalar is None:
        return []
    match index_type:
        case pb.INDEX_TYPE_TEXT:
            return list[Cell](split_words(str(scalar))[:MAX_INDEX_ROWS])
        case pb.INDEX_TYPE_INT | pb.INDEX_TYPE_DOUBLE:
            return [] if isinstance(scalar, str | bool) else [scalar]
        case pb.INDEX_TYPE_BOOL:
            return [int(scalar)] if isinstance(scalar, bool) else []
        case pb.INDEX_TYPE_DATETIME:
            instant = parse_instant(scalar) if isinstance(scalar, str) else None
            return [] if instant is None else [instant]
        case _:
            return [str(scalar)]


def split_words(text: str) -> list[str]:
    """Split text into the distinct words that a full-text search compares, in order of appearance."""
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def parse_instant(text: str) -> float | None:
    """Return the Unix time of an RFC 3339 time, or `None` when it is none; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _read_strings(value: pb.Value) -> list[str]:
    if value.WhichOneof("kind") == "string_value":
        return [value.string_value]
    if value.WhichOneof("kind") != "obj_value" or value.obj_value.encoding != "json":
        return []
    try:
        return list(dict.fromkeys(msgspec.json.decode(value.obj_value.payload, type=list[str])))
    except msgspec.DecodeError:
        return []
