"""The rules for image references, and for the bytes behind them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, get_args

from dex_agents.errors import ImageValidationError, MediaStoreError
from dex_agents.limits import MAX_IMAGE_BYTES, MAX_IMAGE_URI_LENGTH, MAX_IMAGES_PER_MESSAGE
from dex_agents.media.contract import MediaStore
from dex_agents.media.image_check import ImageBuffer, check_image
from dex_agents.wire.images import AgentImageReference, ImageMimeType

__all__ = [
    "build_image_reference",
    "image_uri",
    "load_images",
    "require_short_image_uris",
    "require_store_image_reference",
    "validate_image_reference",
    "validate_image_references",
    "verify_image_bytes",
]

_MIME_TYPES: Final[tuple[str, ...]] = get_args(ImageMimeType)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def validate_image_reference(reference: AgentImageReference) -> None:
    """Check that a reference could have come from a media store.

    It says nothing about whether the bytes are there.

    Raises:
        ImageValidationError: A field breaks its rule; `field` names it.
    """
    if not reference.uri:
        raise ImageValidationError("uri", "must not be empty")
    if not reference.uri.isprintable():
        raise ImageValidationError("uri", "must not contain control or other unprintable characters")
    uri_length = len(reference.uri.encode())
    if uri_length > MAX_IMAGE_URI_LENGTH:
        raise ImageValidationError("uri", f"has {uri_length} bytes, the limit is {MAX_IMAGE_URI_LENGTH}")
    if reference.mime_type not in _MIME_TYPES:
        raise ImageValidationError("mime_type", f"must be one of {', '.join(_MIME_TYPES)}")
    if _SHA256.fullmatch(reference.sha256) is None:
        raise ImageValidationError("sha256", "must be 64 lower-case hexadecimal digits")
    if reference.size_bytes < 1:
        raise ImageValidationError("size_bytes", "must be at least 1")
    _require_size("size_bytes", reference.size_bytes)


def validate_image_references(references: Sequence[AgentImageReference]) -> None:
    """Check the references of one message or tool result.

    Raises:
        ImageValidationError: There are more than `limits.MAX_IMAGES_PER_MESSAGE`, or one breaks a rule;
            `field` then begins with its place, such as `images[3].sha256`.
    """
    if len(references) > MAX_IMAGES_PER_MESSAGE:
        raise ImageValidationError(
            "images", f"has {len(references)} images, the limit is {MAX_IMAGES_PER_MESSAGE}"
        )
    for index, reference in enumerate(references):
        try:
            validate_image_reference(reference)
        except ImageValidationError as error:
            raise ImageValidationError(f"images[{index}].{error.field}", error.problem) from None


def image_uri(store_uri: str, sha256: str) -> str:
    """Return where a store keeps the image with this SHA-256."""
    return f"{store_uri}/sha256/{sha256}"


def require_short_image_uris(store_uri: str) -> None:
    """Check, when a store is made, that the `uri` of every image in it will be valid.

    Args:
        store_uri: The location of the store, without a slash at its end.

    Raises:
        ValueError: A `uri` would be longer than `limits.MAX_IMAGE_URI_LENGTH` bytes, or have characters
            that none may have.
    """
    sample = AgentImageReference(
        uri=image_uri(store_uri, "0" * 64), mime_type="image/png", sha256="0" * 64, size_bytes=1
    )
    try:
        validate_image_reference(sample)
    except ImageValidationError as error:
        raise ValueError(f"the location of the store makes bad image references: {error}") from None


def build_image_reference(
    data: ImageBuffer, store_uri: str, *, accept_damaged: bool = True
) -> AgentImageReference:
    """Check image bytes and name them by their content.

    Args:
        data: A whole image file.
        store_uri: The location of the store, without a slash at its end.
        accept_damaged: Whether an image that cannot be read to its end is taken, as every core of this
            product takes it; some providers refuse such images.

    Returns:
        A reference whose fields all come from `data`.

    Raises:
        ImageValidationError: `data` is longer than `limits.MAX_IMAGE_BYTES`, or is no image; or is a
            damaged one that is not accepted.
    """
    _require_size("data", memoryview(data).nbytes)
    check = check_image(data)
    if check.mime_type is None:
        raise ImageValidationError("data", f"is none of {', '.join(_MIME_TYPES)}")
    if not check.is_image:
        raise ImageValidationError("data", f"begins like {check.mime_type} and is no such image")
    if check.damage is not None and not accept_damaged:
        raise ImageValidationError("data", f"is a damaged {check.mime_type}: {check.damage}")
    return AgentImageReference(
        uri=image_uri(store_uri, check.sha256),
        mime_type=check.mime_type,
        sha256=check.sha256,
        size_bytes=check.size_bytes,
    )


def require_store_image_reference(reference: AgentImageReference, store_uri: str) -> None:
    """Check that a valid reference is one of the store at this location.

    Call it before reading: a store must not be led to other places by a reference it did not make.

    Raises:
        ImageValidationError: The reference is not valid, or its `uri` is not what this store would give it.
    """
    validate_image_reference(reference)
    if reference.uri != image_uri(store_uri, reference.sha256):
        raise ImageValidationError("uri", f"is not an image of the store {store_uri}")


def verify_image_bytes(reference: AgentImageReference, data: ImageBuffer) -> None:
    """Check that a store gave back what the reference stands for.

    Raises:
        MediaStoreError: Size or SHA-256 differ, so these are not the bytes that were stored.
        ImageValidationError: They are, and are no image of the type that the reference names.
    """
    size_bytes = memoryview(data).nbytes
    if size_bytes != reference.size_bytes:
        raise MediaStoreError(
            reference.uri, f"the store holds {size_bytes} bytes, the reference says {reference.size_bytes}"
        )
    check = check_image(data)
    if check.sha256 != reference.sha256:
        raise MediaStoreError(reference.uri, "the stored bytes do not have the SHA-256 of the reference")
    if not check.is_image or check.mime_type != reference.mime_type:
        raise ImageValidationError("mime_type", f"is {reference.mime_type}, which the stored bytes are not")


async def load_images(store: MediaStore, references: Sequence[AgentImageReference]) -> dict[str, bytes]:
    """Read the bytes of every image that a model call shows, all at the same time.

    Args:
        store: Where they are.
        references: Any number; those that repeat are read once.

    Returns:
        The bytes by SHA-256.

    Raises:
        ImageValidationError: A reference is not valid, or not one of this store.
        MediaStoreError: The bytes of one are gone or are not those that were stored.

    Durability:
        Reads the store each time, right before the model call; a retried Step reads again.
    """
    failure: Exception | None = None
    reads: dict[AgentImageReference, asyncio.Task[bytes]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for reference in references:
                if reference not in reads:
                    reads[reference] = group.create_task(store.get_image(reference))
    except ExceptionGroup as errors:
        failure = errors.exceptions[0]
    # Raised out here, where the group does not become its context.
    if failure is not None:
        raise failure
    return {reference.sha256: read.result() for reference, read in reads.items()}


def _require_size(field: str, size_bytes: int) -> None:
    if size_bytes > MAX_IMAGE_BYTES:
        raise ImageValidationError(field, f"is {size_bytes} bytes, the limit is {MAX_IMAGE_BYTES}")
