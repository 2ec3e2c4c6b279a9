"""The media store in memory."""

from __future__ import annotations

import pytest

from dex_agents.errors import ImageValidationError
from dex_agents.media.memory import InMemoryMediaStore
from tests.sample_images import png_image
from tests.suites.media_store import MediaStoreSuite


class TestInMemoryMediaStore(MediaStoreSuite):
    @pytest.fixture
    def store(self) -> InMemoryMediaStore:
        return InMemoryMediaStore()


async def test_bytes_that_change_after_they_were_put_change_no_image() -> None:
    store = InMemoryMediaStore()
    data = bytearray(png_image())
    reference = await store.put_image(data)
    data[:] = bytes(len(data))
    assert await store.get_image(reference) == png_image()


async def test_damaged_images_are_refused_by_a_store_that_wants_whole_ones() -> None:
    cut = png_image()[:-8]
    await InMemoryMediaStore().put_image(cut)
    with pytest.raises(ImageValidationError, match="damaged image/png: truncated"):
        await InMemoryMediaStore(accept_damaged=False).put_image(cut)


def test_a_location_that_makes_long_references_is_refused() -> None:
    longest = "memory://" + "a" * (1024 - len("memory://") - len("/sha256/") - 64)
    InMemoryMediaStore(longest)
    with pytest.raises(ValueError, match="has 1025 bytes, the limit is 1024"):
        InMemoryMediaStore(longest + "a")
