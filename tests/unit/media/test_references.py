"""The rules for image references."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dex_agents.errors import ImageValidationError
from dex_agents.media.references import (
    build_image_reference,
    require_short_image_uris,
    validate_image_reference,
    validate_image_references,
)
from dex_agents.wire.images import AgentImageReference
from tests.sample_images import gif_image, png_image

REFERENCE = build_image_reference(png_image(), "s3://agent-media/sessions")


def changed(**fields: Any) -> AgentImageReference:
    return msgspec.structs.replace(REFERENCE, **fields)


def test_a_reference_is_stored_as_every_core_stores_it() -> None:
    reference = AgentImageReference(
        uri="s3://agent-media/sessions/sha256/9f2c", mime_type="image/png", sha256="9f2c", size_bytes=48213
    )
    assert msgspec.json.encode(reference) == (
        b'{"type":"image","uri":"s3://agent-media/sessions/sha256/9f2c","mime_type":"image/png",'
        b'"sha256":"9f2c","size_bytes":48213}'
    )


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("uri", "", "must not be empty"),
        ("uri", "s3://a\nb", "must not contain control"),
        ("uri", "s3://\ud800", "must not contain control"),
        ("uri", "é" * 513, "has 1026 bytes, the limit is 1024"),
        ("mime_type", "image/svg+xml", "must be one of image/png, image/jpeg, image/gif, image/webp"),
        ("mime_type", "IMAGE/PNG", "must be one of"),
        ("sha256", "9F" * 32, "must be 64 lower-case hexadecimal digits"),
        ("sha256", "9f" * 32 + "\n", "must be 64 lower-case hexadecimal digits"),
        ("size_bytes", 0, "must be at least 1"),
        ("size_bytes", 3_750_001, "is 3750001 bytes, the limit is 3750000"),
    ],
)
def test_a_field_that_breaks_its_rule_is_named(field: str, value: Any, problem: str) -> None:
    with pytest.raises(ImageValidationError) as caught:
        validate_image_reference(changed(**{field: value}))
    assert caught.value.field == field
    assert caught.value.problem.startswith(problem)


def test_fields_at_their_limits_are_valid() -> None:
    validate_image_reference(changed(uri="é" * 512, size_bytes=3_750_000))


@pytest.mark.requirement("image-limits")
def test_twenty_images_are_a_message_and_one_more_is_refused_whole() -> None:
    validate_image_references([REFERENCE] * 20)
    with pytest.raises(ImageValidationError, match="images: has 21 images, the limit is 20"):
        validate_image_references([REFERENCE] * 21)


def test_the_place_of_a_bad_reference_is_named() -> None:
    with pytest.raises(ImageValidationError) as caught:
        validate_image_references([REFERENCE, changed(sha256="")])
    assert caught.value.field == "images[1].sha256"


@pytest.mark.requirement("image-from-bytes")
def test_the_type_is_that_of_the_bytes() -> None:
    assert build_image_reference(gif_image(), "s3://agent-media").mime_type == "image/gif"


def test_no_error_holds_bytes_of_the_image() -> None:
    with pytest.raises(ImageValidationError) as caught:
        build_image_reference(b"\xff\xd8\xff\xe0secret", "s3://agent-media")
    assert str(caught.value) == "data: begins like image/jpeg and is no such image"


def test_a_store_location_with_a_control_character_is_refused() -> None:
    with pytest.raises(ValueError, match="bad image references"):
        require_short_image_uris("s3://bucket/a\tb")
