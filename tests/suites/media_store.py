"""What any media store must do. A test module of a store imports `MediaStoreSuite` and gives it a fixture
`store` that is empty.
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from dex_agents.errors import ImageValidationError, MediaStoreError
from dex_agents.limits import MAX_IMAGE_BYTES
from dex_agents.media.contract import MediaStore
from dex_agents.media.references import load_images, validate_image_reference
from tests.sample_images import gif_image, jpeg_image, png_image


def png_of_length(length: int) -> bytes:
    half, odd = divmod(length - len(png_image(b"")), 2)
    return png_image(bytes(half)) + bytes(odd)


class MediaStoreSuite:
    async def test_an_image_comes_back_as_it_was_put(self, store: MediaStore) -> None:
        reference = await store.put_image(png_image())
        assert await store.get_image(reference) == png_image()

    async def test_every_field_of_a_reference_comes_from_the_bytes(self, store: MediaStore) -> None:
        reference = await store.put_image(jpeg_image())
        validate_image_reference(reference)
        assert reference.sha256 == hashlib.sha256(jpeg_image()).hexdigest()
        assert reference.uri.endswith(f"/sha256/{reference.sha256}")
        assert (reference.mime_type, reference.size_bytes) == ("image/jpeg", len(jpeg_image()))

    async def test_the_same_bytes_are_one_image_whatever_buffer_they_are_in(self, store: MediaStore) -> None:
        puts = (png_image(), bytearray(png_image()), memoryview(png_image()))
        references = await asyncio.gather(*(store.put_image(data) for data in puts))
        assert len(set(references)) == 1

    async def test_what_is_no_image_is_refused(self, store: MediaStore) -> None:
        for data in (b"", b"<Error>AccessDenied</Error>", png_image()[:20], jpeg_image()[:-1]):
            with pytest.raises(ImageValidationError) as caught:
                await store.put_image(data)
            assert caught.value.field == "data"

    async def test_an_image_of_the_largest_size_is_taken_and_one_byte_more_is_refused(
        self, store: MediaStore
    ) -> None:
        for length in (MAX_IMAGE_BYTES - 1, MAX_IMAGE_BYTES):
            reference = await store.put_image(png_of_length(length))
            assert reference.size_bytes == length
        with pytest.raises(ImageValidationError, match="3750001 bytes, the limit is 3750000"):
            await store.put_image(png_of_length(MAX_IMAGE_BYTES + 1))
        assert len(await store.get_image(reference)) == MAX_IMAGE_BYTES

    async def test_an_image_that_is_not_there_is_a_store_error(self, store: MediaStore) -> None:
        stored = await store.put_image(png_image())
        other = hashlib.sha256(b"other").hexdigest()
        missing = msgspec.structs.replace(stored, sha256=other, uri=stored.uri.replace(stored.sha256, other))
        with pytest.raises(MediaStoreError):
            await store.get_image(missing)

    async def test_a_reference_of_another_place_is_refused(self, store: MediaStore) -> None:
        stored = await store.put_image(png_image())
        for uri in (
            f"file:///etc/sha256/{stored.sha256}",
            stored.uri + "/",
            stored.uri.replace("sha256", "x"),
        ):
            with pytest.raises(ImageValidationError) as caught:
                await store.get_image(msgspec.structs.replace(stored, uri=uri))
            assert caught.value.field == "uri"

    async def test_a_reference_that_disagrees_with_the_bytes_is_refused(self, store: MediaStore) -> None:
        stored = await store.put_image(png_image())
        with pytest.raises(ImageValidationError, match="mime_type"):
            await store.get_image(msgspec.structs.replace(stored, mime_type="image/jpeg"))
        with pytest.raises(MediaStoreError, match="the reference says"):
            await store.get_image(msgspec.structs.replace(stored, size_bytes=stored.size_bytes - 1))

    async def test_images_of_a_model_call_are_loaded_by_their_hash(self, store: MediaStore) -> None:
        images = [png_image(), jpeg_image(), gif_image()]
        references = [await store.put_image(image) for image in images]
        loaded = await load_images(store, [*references, references[0]])
        assert loaded == {one.sha256: image for one, image in zip(references, images, strict=True)}

    async def test_one_image_that_cannot_be_loaded_fails_the_whole_with_its_own_error(
        self, store: MediaStore
    ) -> None:
        stored = await store.put_image(png_image())
        wrong = msgspec.structs.replace(stored, size_bytes=1)
        with pytest.raises(MediaStoreError):
            await load_images(store, [stored, wrong])
