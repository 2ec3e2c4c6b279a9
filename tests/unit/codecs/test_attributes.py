"""Stored values: formats, defaults and refusals."""

from __future__ import annotations

import pytest
from dex import Value, WireKind

from dex_agents.codecs.attributes import StructCodec
from dex_agents.errors import WireFormatError
from dex_agents.wire.step_inputs import IdleStepInput, TurnStepInput

_codec = StructCodec(TurnStepInput)


def _json(text: str) -> Value:
    return Value(WireKind.JSON, text)


def test_a_value_begins_with_its_format_and_comes_back() -> None:
    value = TurnStepInput(3, 1, calls_to_join=2)
    assert _codec.encode(value).data == ('{"format":1,"turn_number":3,"response_index":1,"calls_to_join":2}')
    assert _codec.decode(_codec.encode(value)) == value


def test_an_empty_value_is_still_an_object_with_a_format() -> None:
    codec = StructCodec(IdleStepInput)
    assert codec.encode(IdleStepInput()).data == '{"format":1}'
    assert codec.decode(codec.encode(IdleStepInput())) == IdleStepInput()


def test_a_reader_ignores_fields_of_a_newer_writer_and_fills_in_those_of_an_older_one() -> None:
    text = '{"response_index":1,"format":1,"later":{"x":[1]},"turn_number":3}'
    assert _codec.decode(_json(text)) == TurnStepInput(3, 1)


@pytest.mark.parametrize(
    ("text", "field", "version"),
    [
        ('{"format":2,"turn_number":3,"response_index":1}', "format", 2),
        ('{"turn_number":3,"response_index":1}', "format", None),
        ("[1]", "format", None),
        ("not json", "format", None),
        ('{"format":1,"turn_number":"three","response_index":1}', "", None),
        ('{"format":1,"turn_number":3}', "", None),
    ],
)
def test_what_can_not_be_read_is_named_and_never_guessed(text: str, field: str, version: int | None) -> None:
    with pytest.raises(WireFormatError) as caught:
        _codec.decode(_json(text))
    assert (caught.value.room, caught.value.field, caught.value.found_version) == (
        "TurnStepInput",
        field,
        version,
    )


def test_a_codec_takes_its_own_type_only() -> None:
    with pytest.raises(TypeError, match="TurnStepInput expected, not IdleStepInput"):
        _codec.encode(IdleStepInput())  # type: ignore[arg-type]
