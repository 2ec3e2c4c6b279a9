"""A media store in the memory of one process."""

from __future__ import annotations

import asyncio
from typing import Final

from dex_agents.errors import MediaStoreError
from dex_agents.media.image_check import ImageBuffer
from dex_agents.media.references import (
    build_image_reference,
    require_short_image_uris,
    require_store_image_reference,
    verify_image_bytes,
)
from dex_agents.wire.images import AgentImageReference

__all__ = ["InMemoryMediaStore"]


class InMemoryMediaStore:
    """Keeps images in this process: for tests, and for sessions that end with it.

    Two stores with the same `store_uri` name the same image alike, and do not share bytes.

    Args:
        store_uri: The location that references show, without a slash at its end.
        accept_damaged: Whether images that cannot be read to their end are taken.

    Raises:
        ValueError: `store_uri` would make image references longer than a reference may be.
    """

    def __init__(self, store_uri: str = "memory://images", *, accept_damaged: bool = True) -> None:
        require_short_image_uris(store_uri)
        self._store_uri: Final = store_uri
        self._accept_damaged: Final = accept_damaged
        self._images: Final[dict[str, bytes]] = {}

    async def put_image(self, data: ImageBuffer, /) -> AgentImageReference:
        """See `MediaStore.put_image`.

        Durability:
            A retried Step finds the same image; nothing outlives the process.
        """
        content = bytes(data)
        reference = await asyncio.to_thread(
            build_image_reference, content, self._store_uri, accept_damaged=self._accept_damaged
        )
        self._images.setdefault(reference.sha256, content)
        return reference

    async def get_image(self, reference: AgentImageReference, /) -> bytes:
        """See `MediaStore.get_image`."""
        require_store_image_reference(reference, self._store_uri)
        content = self._images.get(reference.sha256)
        if content is None:
            raise MediaStoreError(reference.uri, "the store has no such image")
        await asyncio.to_thread(verify_image_bytes, reference, content)
        return content
