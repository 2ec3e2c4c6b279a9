from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.values import BlobNumbers
from tests.unit.engine.building import new_unit, text


@pytest.mark.parametrize("kind", ["string", "object"])
def test_a_blob_id_tells_its_kind_and_row(kind: str) -> None:
    numbers = BlobNumbers("00c0ffee", 41)
    number = numbers.next_number()
    blob_id = numbers.build_id("string" if kind == "string" else "object", number)
    assert len(blob_id) == 25
    assert numbers.parse_id(blob_id) == (kind, 42)


@pytest.mark.parametrize("blob_id", ["", "s", "s00c0ffee" + "z" * 16, "x00c0ffee" + "0" * 16, "s" + "0" * 24])
def test_an_id_of_something_else_is_not_read(blob_id: str) -> None:
    assert BlobNumbers("00c0ffee", 0).parse_id(blob_id) is None


@pytest.mark.parametrize(("size", "is_blob"), [(32 * 1024, False), (32 * 1024 + 1, True)])
def test_the_threshold_counts_bytes_and_not_characters(size: int, is_blob: bool) -> None:
    unit = new_unit()
    plain = unit.store_value(text("x" * size))
    assert plain.HasField("internal_blob_id_for_string_value") is is_blob
    wide = unit.store_value(text("ä" * (size // 2) + "x" * (size % 2)))
    assert wide.HasField("internal_blob_id_for_string_value") is is_blob


def test_a_large_object_keeps_its_encoding_in_the_blob() -> None:
    unit = new_unit()
    value = pb.Value(obj_value=pb.EncodedObject(encoding="raw", payload=b"x" * 40_000))
    assert unit.store_value(value).HasField("internal_blob_id_for_obj_value")
    (blob,) = unit.blobs
    assert pb.EncodedObject.FromString(blob.payload) == value.obj_value


def test_an_id_is_stored_as_it_is() -> None:
    unit = new_unit()
    value = pb.Value(internal_blob_id_for_obj_value="o00c0ffee" + "0" * 16)
    assert unit.store_value(value) is value
    assert unit.blobs == []
