"""The contract of a media store."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dex_agents.media.image_check import ImageBuffer
from dex_agents.wire.images import AgentImageReference

__all__ = ["MediaStore"]


@runtime_checkable
class MediaStore(Protocol):
    """Keeps image bytes outside session state, each under a name made of its content.

    A store of your own checks its location once with `require_short_image_uris`, makes references with
    `build_image_reference`, and before it returns bytes calls `require_store_image_reference` and
    `verify_image_bytes`. `tests/suites/media_store.py` says what any store must do.

    Nothing deletes an image: a session that is replayed may need it again.
    """

    async def put_image(self, data: ImageBuffer, /) -> AgentImageReference:
        """Store an image and return the reference that stands for it in session state.

        Call it inside the Step that made the bytes; session state keeps the reference only.

        Args:
            data: A whole PNG, JPEG, GIF or WebP file, at most `limits.MAX_IMAGE_BYTES` long.

        Returns:
            A reference whose `uri` ends in the SHA-256 of `data`, and all of whose fields come from the
            bytes, never from what somebody declared about them.

        Raises:
            ImageValidationError: `data` is not such an image; nothing was stored.
            MediaStoreError: The store could not take it; another attempt may succeed.

        Durability:
            Named by content, so a retried Step or a second Worker writes the same object once.
        """
        ...

    async def get_image(self, reference: AgentImageReference, /) -> bytes:
        """Return the bytes that a reference stands for.

        Args:
            reference: One that this store, or another with the same location, returned.

        Raises:
            ImageValidationError: `reference` is not valid, or not one of this store.
            MediaStoreError: The bytes are gone, cannot be read, or are not those that were stored.

        Durability:
            Read before every model call that shows the image; a retried Step reads it again.
        """
        ...
