"""The images of a model request: which of them are sent, and their bytes.

References are stored, bytes are read right before each call. An image that cannot be sent is named in the
text that it came with, so that no image keeps a session from going on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.contract import (
    LimitsImages,
    ModelClient,
    ModelImageLimits,
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelToolResultItem,
)
from dex_agents.errors import ImageValidationError
from dex_agents.media.contract import MediaStore
from dex_agents.wire.images import AgentImageReference

__all__ = ["has_images", "hide_images", "limit_images", "load_request_images"]

_DEFAULT_LIMITS: Final = ModelImageLimits()

_HidingReason = Callable[[AgentImageReference], str | None]


def has_images(request: ModelRequest) -> bool:
    """Return whether a request shows any image."""
    return any(_images_of(item) for item in request.items)


def limit_images(request: ModelRequest, model: ModelClient) -> ModelRequest:
    """Return the request with as many of its latest images as its provider takes; pure.

    Args:
        request: With the references of all images.
        model: Who is to answer it.
    """
    limits = model.image_limits if isinstance(model, LimitsImages) else _DEFAULT_LIMITS
    left = [limits.max_images, limits.max_bytes]
    reason = texts.IMAGE_OVER_REQUEST_LIMIT if limits.max_images else texts.IMAGES_NOT_SEEN

    def find_reason(image: AgentImageReference) -> str | None:
        left[0] -= 1
        left[1] -= image.size_bytes
        # From the first one that is too many on, all older ones are: a request grows at its end only.
        return None if min(left) >= 0 else reason

    return _hide(request, find_reason)


def hide_images(request: ModelRequest, reason: str) -> ModelRequest:
    """Return the request with all of its images named and none sent; pure."""
    return msgspec.structs.replace(_hide(request, lambda _image: reason), image_data={})


async def load_request_images(
    request: ModelRequest, store: MediaStore | None, *, is_last_attempt: bool
) -> ModelRequest:
    """Return the request with the bytes of its images.

    Args:
        request: With the references of the images to send.
        store: Where they are; `None` when the agent has none any more.
        is_last_attempt: Whether an image that cannot be read is named at last; until then it fails the
            attempt, since another one may succeed.

    Raises:
        Exception: Whatever the store raises, in an attempt before the last.

    Durability:
        Reads only; every attempt reads again.
    """
    if not has_images(request):
        return request
    if store is None:
        return hide_images(request, texts.IMAGES_NOT_TAKEN)
    references = list(dict.fromkeys(image for item in request.items for image in _images_of(item)))
    read = await asyncio.gather(*map(store.get_image, references), return_exceptions=True)
    loaded: dict[AgentImageReference, bytes] = {}
    for reference, result in zip(references, read, strict=True):
        if not isinstance(result, BaseException):
            loaded[reference] = result
        elif not isinstance(result, ImageValidationError) and not is_last_attempt:
            # An image of no store, or of another one, stays what it is; anything else may pass.
            raise result
    shown = _hide(request, lambda image: None if image in loaded else texts.IMAGE_UNREADABLE)
    return msgspec.structs.replace(
        shown, image_data={reference.sha256: data for reference, data in loaded.items()}
    )


def _hide(request: ModelRequest, find_reason: _HidingReason) -> ModelRequest:
    """Ask of each image, the latest first, why it is not sent; name those for which there is a reason."""
    items = [_hide_in(item, find_reason) for item in reversed(request.items)]
    return msgspec.structs.replace(request, items=tuple(reversed(items)))


def _hide_in(item: ModelInputItem, find_reason: _HidingReason) -> ModelInputItem:
    if isinstance(item, ModelOutputItem) or not item.images:
        return item
    reasons = [(image, find_reason(image)) for image in reversed(item.images)][::-1]
    shown = tuple(image for image, reason in reasons if reason is None)
    notes = [
        texts.image_not_shown(image.mime_type, image.size_bytes, reason)
        for image, reason in reasons
        if reason is not None
    ]
    if not notes:
        return item
    if isinstance(item, ModelToolResultItem):
        return msgspec.structs.replace(item, output="\n".join((item.output, *notes)), images=shown)
    return msgspec.structs.replace(item, text="\n".join((item.text, *notes)), images=shown)


def _images_of(item: ModelInputItem) -> tuple[AgentImageReference, ...]:
    return () if isinstance(item, ModelOutputItem) else item.images
