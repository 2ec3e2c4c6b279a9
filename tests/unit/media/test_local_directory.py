"""The media store in a directory."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import msgspec
import pytest

from dex_agents.errors import ImageValidationError, MediaStoreError
from dex_agents.media.local_directory import LocalDirectoryMediaStore
from tests.sample_images import gif_image, png_image
from tests.suites.media_store import MediaStoreSuite

PNG_SHA256 = hashlib.sha256(png_image()).hexdigest()


class TestLocalDirectoryMediaStore(MediaStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalDirectoryMediaStore:
        return LocalDirectoryMediaStore(tmp_path / "images")


def image_path(root: Path) -> Path:
    return root / "sha256" / PNG_SHA256


async def test_another_store_of_the_same_root_reads_the_image(tmp_path: Path) -> None:
    reference = await LocalDirectoryMediaStore(tmp_path).put_image(png_image())
    assert await LocalDirectoryMediaStore(tmp_path).get_image(reference) == png_image()


async def test_what_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    await LocalDirectoryMediaStore(root).put_image(png_image())
    for directory in (root.parent, root, root / "sha256"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(image_path(root).stat().st_mode) == 0o600
    assert [path.name for path in (root / "sha256").iterdir()] == [PNG_SHA256]


@pytest.fixture
def synced_inodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the system was told to put on the disk, in order."""
    inodes: list[int] = []
    sync = os.fsync

    def recorded_sync(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    return inodes


async def test_a_put_syncs_the_image_before_its_name_and_every_name_that_leads_to_it(
    tmp_path: Path, synced_inodes: list[int]
) -> None:
    root = tmp_path / "a" / "b"
    await LocalDirectoryMediaStore(root).put_image(png_image())
    image, directory = image_path(root).stat().st_ino, image_path(root).parent.stat().st_ino
    assert synced_inodes[-2:] == [image, directory]
    assert {path.stat().st_ino for path in (tmp_path, root.parent, root)} <= set(synced_inodes)


async def test_a_put_of_an_image_that_is_there_syncs_the_names_again(
    tmp_path: Path, synced_inodes: list[int]
) -> None:
    root = tmp_path / "images"
    await LocalDirectoryMediaStore(root).put_image(png_image())
    synced_inodes.clear()
    await LocalDirectoryMediaStore(root).put_image(png_image())
    assert set(synced_inodes) == {path.stat().st_ino for path in (tmp_path, root, root / "sha256")}


async def test_a_uri_holds_the_root_as_text_with_all_but_plain_characters_encoded(tmp_path: Path) -> None:
    root = tmp_path / "é e\u0301~100%/+x"
    reference = await LocalDirectoryMediaStore(root).put_image(png_image())
    assert reference.uri == f"file://{tmp_path}/%C3%A9%20e%CC%81~100%25/%2Bx/sha256/{PNG_SHA256}"


@pytest.mark.parametrize("spelling", ["//{}", "{}/", "{}/./x/..", "{}//"])
async def test_one_root_has_one_text(tmp_path: Path, spelling: str) -> None:
    reference = await LocalDirectoryMediaStore(tmp_path).put_image(png_image())
    again = LocalDirectoryMediaStore(spelling.format(tmp_path))
    assert await again.put_image(png_image()) == reference


async def test_a_link_to_the_root_is_not_followed_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    reference = await LocalDirectoryMediaStore(tmp_path / "link").put_image(png_image())
    assert reference.uri == f"file://{tmp_path}/link/sha256/{PNG_SHA256}"
    assert image_path(tmp_path / "real").is_file()


@pytest.mark.parametrize("root", ["images", "./images", "", "~/images", "/a\0b"])
def test_a_root_that_is_not_absolute_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="root: must be an absolute path"):
        LocalDirectoryMediaStore(root)


def test_a_root_that_makes_long_references_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the limit is 1024"):
        LocalDirectoryMediaStore(tmp_path / ("é" * 200))


async def test_a_symbolic_link_in_place_of_an_image_is_neither_read_nor_written(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    elsewhere = tmp_path / "elsewhere"
    image_path(tmp_path).rename(elsewhere)
    image_path(tmp_path).symlink_to(elsewhere)
    with pytest.raises(MediaStoreError):
        await store.get_image(reference)
    with pytest.raises(MediaStoreError):
        await store.put_image(png_image())


async def test_a_symbolic_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    (tmp_path / "sha256").rename(tmp_path / "elsewhere")
    (tmp_path / "sha256").symlink_to("elsewhere")
    with pytest.raises(MediaStoreError):
        await store.get_image(reference)
    with pytest.raises(MediaStoreError):
        await store.put_image(gif_image())


async def test_an_image_with_two_hard_links_is_refused(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    os.link(image_path(tmp_path), tmp_path / "second")
    for attempt in (store.get_image(reference), store.put_image(png_image())):
        with pytest.raises(MediaStoreError, match="2 hard links, one is allowed"):
            await attempt


async def test_an_image_that_is_replaced_by_the_same_image_while_it_is_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    look_at = os.fstat

    def replace_and_look_at(descriptor: int) -> os.stat_result:
        copy = tmp_path / "copy"
        copy.write_bytes(png_image())
        copy.rename(image_path(tmp_path))
        return look_at(descriptor)

    monkeypatch.setattr(os, "fstat", replace_and_look_at)
    assert await store.get_image(reference) == png_image()


async def test_a_fifo_in_place_of_an_image_is_refused_at_once(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    image_path(tmp_path).unlink()
    os.mkfifo(image_path(tmp_path))
    with pytest.raises(MediaStoreError, match="no regular file"):
        await store.get_image(reference)


@pytest.mark.requirement("image-verified")
async def test_stored_bytes_that_changed_are_a_store_error(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    content = bytearray(png_image())
    content[-1] ^= 1
    image_path(tmp_path).write_bytes(content)
    with pytest.raises(MediaStoreError, match="do not have the SHA-256"):
        await store.get_image(reference)
    with pytest.raises(MediaStoreError, match="other bytes have the name"):
        await store.put_image(png_image())


async def test_a_stored_image_of_another_length_is_not_read(tmp_path: Path) -> None:
    store = LocalDirectoryMediaStore(tmp_path)
    reference = await store.put_image(png_image())
    image_path(tmp_path).write_bytes(png_image() * 2)
    with pytest.raises(MediaStoreError, match=f"{reference.size_bytes * 2} bytes, the reference says"):
        await store.get_image(reference)


async def test_nothing_is_stored_of_what_is_no_image(tmp_path: Path) -> None:
    root = tmp_path / "images"
    with pytest.raises(ImageValidationError):
        await LocalDirectoryMediaStore(root).put_image(b"<Error>AccessDenied</Error>")
    assert not root.exists()


async def test_a_root_that_is_a_file_is_a_store_error(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("not a directory")
    with pytest.raises(MediaStoreError):
        await LocalDirectoryMediaStore(root).put_image(png_image())


async def test_a_reference_made_for_another_root_is_refused(tmp_path: Path) -> None:
    reference = await LocalDirectoryMediaStore(tmp_path / "one").put_image(png_image())
    with pytest.raises(ImageValidationError, match="not an image of the store"):
        await LocalDirectoryMediaStore(tmp_path / "two").get_image(reference)
    up = msgspec.structs.replace(reference, uri=reference.uri.replace("/one/", "/two/../one/"))
    with pytest.raises(ImageValidationError, match="not an image of the store"):
        await LocalDirectoryMediaStore(tmp_path / "two").get_image(up)
