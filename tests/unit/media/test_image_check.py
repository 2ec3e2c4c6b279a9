"""What `check_image` takes, and what it leaves alone."""

from __future__ import annotations

import array
import mmap
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

import pytest

from dex_agents.media.image_check import check_image, check_images
from tests.oracles.image_check import oracle_check
from tests.sample_images import IMAGE_BUILDERS, gif_image, jpeg_image, png_image


@pytest.mark.parametrize("build", IMAGE_BUILDERS.values(), ids=IMAGE_BUILDERS.keys())
def test_a_whole_image_has_a_type_a_size_and_no_damage(build: Callable[[bytes], bytes]) -> None:
    check = check_image(build(b"pixels"))
    assert check.is_image
    assert not check.damaged
    assert (check.width, check.height) == (5, 7)


@pytest.mark.parametrize("build", IMAGE_BUILDERS.values(), ids=IMAGE_BUILDERS.keys())
def test_an_image_cut_anywhere_is_damaged_or_none(build: Callable[[bytes], bytes]) -> None:
    image = build(b"pixels \xff\xff\0")
    for length in range(len(image)):
        check = check_image(image[:length])
        assert check == oracle_check(image[:length])
        assert check.damaged or not check.is_image


def test_an_error_page_is_no_image() -> None:
    check = check_image(b"<Error><Code>AccessDenied</Code></Error>")
    assert (check.mime_type, check.is_image, check.damaged) == (None, False, False)


def test_bytes_that_only_begin_like_an_image_are_told_apart_from_others() -> None:
    check = check_image(jpeg_image()[:-1])
    assert (check.mime_type, check.is_image, check.width, check.damage) == ("image/jpeg", False, None, None)


def test_no_bytes_are_checked_too() -> None:
    assert check_image(b"") == oracle_check(b"")
    assert check_image(memoryview(b"")) == oracle_check(b"")


def test_every_kind_of_buffer_is_read_as_its_bytes() -> None:
    image = png_image()
    expected = oracle_check(image)
    assert check_image(bytearray(image)) == expected
    assert check_image(memoryview(image)) == expected
    assert check_image(memoryview(b"before" + image + b"after")[6:-5]) == expected
    assert check_image(memoryview(image[::-1])[::-1]) == expected
    assert check_image(memoryview(bytearray(image)).toreadonly()) == expected


def test_a_buffer_of_wider_items_is_read_as_its_bytes() -> None:
    image = gif_image(b"12")
    words = array.array("I", image + bytes(-len(image) % 4))
    expected = oracle_check(words.tobytes())
    assert check_image(memoryview(words)) == expected
    assert check_image(memoryview(words.tobytes()).cast("I")) == expected
    assert expected.size_bytes == 4 * len(words)


def test_a_mapped_file_is_read() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(png_image())
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            assert check_image(view) == oracle_check(png_image())


@pytest.mark.parametrize("data", [None, "text", 5, [1, 2]])
def test_what_has_no_buffer_is_a_type_error(data: object) -> None:
    with pytest.raises(TypeError):
        check_image(data)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        check_images([png_image(), data])  # pyright: ignore[reportArgumentType]


def test_a_buffer_that_was_checked_can_be_resized_again() -> None:
    data = bytearray(png_image())
    view = memoryview(bytes(data))
    check_image(data)
    check_images([data, view])
    data.clear()
    view.release()


def test_a_view_that_was_released_is_refused() -> None:
    view = memoryview(png_image())
    view.release()
    with pytest.raises(ValueError, match="released"):
        check_image(view)


@pytest.fixture
def no_switch_of_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("no_switch_of_threads")
def test_other_threads_run_while_bytes_are_hashed() -> None:
    data = bytes(32 * 1024 * 1024)

    def was_seen_at_work() -> bool:
        started = threading.Lock()
        finished: list[bool] = []

        def check() -> None:
            started.release()
            check_image(data)
            finished.append(True)

        started.acquire()
        thread = threading.Thread(target=check)
        thread.start()
        # A thread keeps the GIL until it lets go of it, so this one goes on in the check or after it.
        started.acquire()
        seen = not finished
        thread.join()
        return seen

    # One time is proof; more tries are for a machine too busy to wake this thread before the hash is done.
    assert any(was_seen_at_work() for _ in range(50))


def test_many_images_on_threads_keep_their_order() -> None:
    images = [png_image(bytes([index]) * (200_000 - index)) for index in range(8)]
    assert check_images(images) == [oracle_check(image) for image in images]
    assert check_images([]) == []
