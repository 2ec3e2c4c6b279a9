"""What an older reader makes of what a newer version wrote, for everything that is stored, sent or streamed.

A field that it does not know is ignored. A variant that it does not know is never guessed: a stored or sent
value stops its reader loudly, and an event is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast, get_args

import msgspec
import pytest
from dex import Value, WireKind
from msgspec import inspect as types

from dex_agents.codecs.attributes import StructCodec, session_codecs
from dex_agents.codecs.events import decode_events
from dex_agents.errors import WireFormatError
from dex_agents.wire.events import AgentEvent, ModelStarted

_STORED = sorted(
    (cast("type[msgspec.Struct]", one) for one in session_codecs()), key=lambda one: one.__name__
)
_EVENTS = cast("tuple[type[msgspec.Struct], ...]", get_args(AgentEvent))
_UNKNOWN = "from_the_future"

Path = tuple[str | int, ...]


def _example(of: types.Type) -> Any:
    """Return a value with every field set, as JSON has it."""
    match of:
        case types.StructType():
            filled = {field.encode_name: _example(field.type) for field in of.fields}
            return filled if of.tag_field is None else {of.tag_field: of.tag, **filled}
        case types.UnionType():
            return _example(next(one for one in of.types if not isinstance(one, types.NoneType)))
        case types.LiteralType():
            return of.values[0]
        case types.EnumType():
            return next(iter(of.cls)).value
        case types.VarTupleType():
            return [_example(of.item_type)]
        case types.DictType():
            return {"key": _example(of.value_type)}
        case types.DateTimeType():
            return "2026-01-02T00:00:00Z"
        case types.IntType():
            return 3
        case types.FloatType():
            return 0.5
        case types.BoolType():
            return True
        case types.StrType() | types.AnyType():
            return "text"
        case _:
            raise AssertionError(of)


def _paths(of: types.Type, kind: type[types.Type] | tuple[type[types.Type], ...]) -> Iterator[Path]:
    """Yield the ways to every value of a kind inside the example."""
    if isinstance(of, kind):
        yield ()
    match of:
        case types.StructType():
            for field in of.fields:
                yield from ((field.encode_name, *rest) for rest in _paths(field.type, kind))
        case types.UnionType():
            chosen = next(one for one in of.types if not isinstance(one, types.NoneType))
            yield from _paths(chosen, kind)
        case types.VarTupleType():
            yield from ((0, *rest) for rest in _paths(of.item_type, kind))
        case types.DictType():
            yield from (("key", *rest) for rest in _paths(of.value_type, kind))
        case _:
            pass


def _changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    first, *rest = path
    copy: Any = list(cast("list[Any]", value)) if isinstance(value, list) else dict(value)
    copy[first] = _changed(copy[first], tuple(rest), change)
    return copy


def _with_unknown_variant(value: Any) -> str:
    assert isinstance(value, str)
    return _UNKNOWN


def _with_more(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, _UNKNOWN: {"a": [1]}}


def _stored(value: Any) -> Value:
    return Value(WireKind.JSON, json.dumps({"format": 1, **value}, separators=(",", ":")))


_VARIANTS = (types.LiteralType, types.EnumType)
_STORED_VARIANTS = [(one, path) for one in _STORED for path in _paths(types.type_info(one), _VARIANTS)]
_EVENT_VARIANTS = [(one, path) for one in _EVENTS for path in _paths(types.type_info(one), _VARIANTS)]


def _name(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    return ".".join(map(str, cast("Path", value)))


@pytest.mark.requirement("format-fields")
@pytest.mark.parametrize("stored", _STORED, ids=_name)
def test_a_field_that_is_not_known_is_ignored_wherever_it_stands(stored: type[msgspec.Struct]) -> None:
    codec = StructCodec(stored)
    example = _example(types.type_info(stored))
    expected = codec.decode(_stored(example))
    for path in _paths(types.type_info(stored), types.StructType):
        assert codec.decode(_stored(_changed(example, path, _with_more))) == expected


@pytest.mark.requirement("format-variants")
@pytest.mark.parametrize(("stored", "path"), _STORED_VARIANTS, ids=_name)
def test_a_variant_that_is_not_known_stops_the_reader_and_names_the_value(
    stored: type[msgspec.Struct], path: Path
) -> None:
    example = _example(types.type_info(stored))
    with pytest.raises(WireFormatError, match=stored.__name__) as raised:
        StructCodec(stored).decode(_stored(_changed(example, path, _with_unknown_variant)))
    assert _UNKNOWN in str(raised.value)


@pytest.mark.parametrize("event", _EVENTS, ids=_name)
def test_an_event_with_more_fields_is_read_as_it_is_known(event: type[msgspec.Struct]) -> None:
    example = _example(types.type_info(event))
    (expected,) = decode_events(json.dumps([example]))
    for path in _paths(types.type_info(event), types.StructType):
        assert decode_events(json.dumps([_changed(example, path, _with_more)])) == [expected]


@pytest.mark.parametrize(("event", "path"), _EVENT_VARIANTS, ids=_name)
def test_an_event_with_a_variant_that_is_not_known_is_skipped_alone(
    event: type[msgspec.Struct], path: Path
) -> None:
    example = _changed(_example(types.type_info(event)), path, _with_unknown_variant)
    known = {"type": "model_started", "seq": 7}
    assert decode_events(json.dumps([known, example, known])) == [ModelStarted(seq=7)] * 2


def test_the_kinds_that_grow_are_among_what_is_tested() -> None:
    tested = {(one.__name__, *path) for one, path in _STORED_VARIANTS}
    assert {
        ("AgentInterrupt", "kind"),
        ("AgentInterrupt", "effect"),
        ("AgentToolCall", "status"),
        ("AgentToolCall", "effect"),
        ("MessageChunk", "messages", 0, "role"),
        ("AgentPlan", "todos", 0, "status"),
        ("AgentSnapshot", "interrupts", 0, "kind"),
        ("AgentSnapshot", "tool_calls", 0, "status"),
        ("SessionRecord", "last_turn_outcome"),
        ("CommandReply", "verdict"),
    } <= tested
