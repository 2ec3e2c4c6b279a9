from __future__ import annotations

from pathlib import Path

import pytest

from dex_agents import InMemoryMediaStore, InvalidInputError
from dex_agents.cli.message_images import MessageImages, find_dropped_images
from dex_agents.limits import MAX_IMAGE_BYTES
from tests.sample_images import jpeg_image, png_image


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "my photo (1).jpg"
    path.write_bytes(jpeg_image())
    return path


def images() -> MessageImages:
    return MessageImages(InMemoryMediaStore())


def test_a_dropped_file_is_found_however_the_terminal_spells_its_path(photo: Path) -> None:
    escaped = str(photo).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)")
    for spelling in (f"'{photo}'", f'"{photo}"', escaped, photo.as_uri()):
        text, paths = find_dropped_images(f"what is {spelling} ?")
        assert (text, paths) == ("what is [image 1: my photo (1).jpg] ?", (photo,)), spelling


def test_only_whole_paths_to_image_files_that_exist_are_taken_for_images(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "a.png").write_bytes(png_image())
    text = f"read a.png ./a.png {tmp_path}/b.png {tmp_path}/notes.txt {tmp_path}/folder.png x{tmp_path}/a.png"
    assert find_dropped_images(text) == (text, ())


async def test_dropped_images_are_numbered_behind_those_that_were_added(photo: Path) -> None:
    drawing = photo.with_name("drawing.PNG")
    drawing.write_bytes(png_image())
    typed = images()
    [added] = await typed.add([str(photo)])
    message, dropped = await typed.build_message(f"compare with {drawing}")
    assert message.text == "compare with [image 2: drawing.PNG]"
    assert message.images == (added, *dropped)
    assert [one.mime_type for one in message.images] == ["image/jpeg", "image/png"]
    # It may not have been accepted: then the same line makes the same message.
    assert (await typed.build_message(f"compare with {drawing}"))[0].images == message.images


@pytest.mark.requirement("cli-images")
async def test_what_is_wrong_with_a_file_is_told_with_its_limit_and_nothing_is_added(
    photo: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("no image")
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(MAX_IMAGE_BYTES + 1)
    typed = images()
    for name, problem in (
        ("missing.png", "No such file"),
        ("text.png", "is none of image/png"),
        ("large.png", f"is {MAX_IMAGE_BYTES + 1} bytes, the limit is {MAX_IMAGE_BYTES}"),
        (".", "is no file"),
    ):
        with pytest.raises(InvalidInputError, match="image: ") as refusal:
            await typed.add([photo, tmp_path / name])
        assert problem in str(refusal.value)
    with pytest.raises(InvalidInputError, match="images: a message would have 21, the limit is 20"):
        await typed.add([photo] * 21)
    assert typed.count == 0
