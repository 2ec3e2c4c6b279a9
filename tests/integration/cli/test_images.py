"""Images in a real terminal and with pipes."""

from __future__ import annotations

import json
import re

import pytest

from dex_agents.limits import MAX_IMAGE_BYTES
from tests.integration.cli.console import CTRL_U, Console
from tests.sample_images import jpeg_image, png_image


@pytest.mark.requirement("cli-images")
def test_images_are_added_by_command_and_by_dropping_a_file(console: Console) -> None:
    photo = console.home / "my photo.jpg"
    photo.write_bytes(jpeg_image())
    (console.work / "drawing.png").write_bytes(png_image())
    terminal = console.open("chat", columns=200)
    terminal.expect_prompt()
    terminal.type("/image drawing.png")
    terminal.expect(r"image 1: image/png, \d+ bytes")
    terminal.expect_prompt()
    terminal.type(f"what is '{photo}'")
    terminal.expect(r"image 2: image/jpeg, \d+ bytes")
    terminal.expect(f"I see image/png, {len(png_image())} bytes")
    terminal.expect(f"I see image/jpeg, {len(jpeg_image())} bytes")
    terminal.expect_prompt()
    # A message has its own images only.
    terminal.type("and now")
    assert "I see" not in terminal.expect("demo model")
    terminal.expect_prompt()
    assert terminal.leave() == 0
    found = re.search(r"--resume ([0-9a-f]{8})", terminal.seen)
    assert found is not None
    shown = console.run("show", found.group(1)).stderr
    assert re.search(r"> what is \[image 2: my photo.jpg\]\n  image 1: image/png, \d+ bytes\n", shown)
    assert re.search(r"\n  image 2: image/jpeg, \d+ bytes\n", shown)
    snapshot = json.loads(console.run("show", "--json", found.group(1)).stdout)
    for image in snapshot["messages"][0]["images"]:
        stored = console.agents / "default.images" / "sha256" / image["sha256"]
        assert stored.stat().st_mode & 0o077 == 0


@pytest.mark.requirement("cli-images")
def test_what_is_wrong_with_an_image_is_told_and_the_line_can_be_changed(console: Console) -> None:
    with (console.work / "large.png").open("wb") as file:
        file.truncate(MAX_IMAGE_BYTES + 1)
    terminal = console.open("chat", columns=200)
    terminal.expect_prompt()
    terminal.type("/image missing.png")
    terminal.expect("Not sent: image: missing.png: No such file or directory")
    # The line stands there again.
    terminal.expect("> /image missing.png")
    terminal.press(CTRL_U)
    large = console.work / "large.png"
    terminal.type(f"a long thought about {large}")
    terminal.expect(f"Not sent: image: {large}: is {MAX_IMAGE_BYTES + 1} bytes, the limit is")
    terminal.expect("> a long thought about")
    terminal.press(CTRL_U)
    terminal.type("list")
    terminal.expect("list_files.*returned")


@pytest.mark.requirement("cli-images")
def test_run_shows_the_images_that_its_options_name(console: Console) -> None:
    (console.work / "a.png").write_bytes(png_image())
    (console.work / "b.jpg").write_bytes(jpeg_image())
    done = console.run("run", "--image", "a.png", "--image", "b.jpg", "what is this")
    assert done.returncode == 0, done.stderr
    assert [line.split()[3] for line in done.stdout.splitlines()] == ["image/png,", "image/jpeg,"]
    assert "image 2: image/jpeg" in done.stderr


@pytest.mark.requirement("cli-images")
def test_run_reads_no_file_that_only_its_message_names(console: Console) -> None:
    (console.work / "a.png").write_bytes(png_image())
    done = console.run("run", f"what is {console.work / 'a.png'}")
    assert done.returncode == 0
    assert "I see" not in done.stdout
    assert not (console.agents / "default.images").exists()


@pytest.mark.requirement("cli-images")
def test_run_with_an_image_that_cannot_be_used_begins_nothing(console: Console) -> None:
    (console.work / "a.png").write_text("no image")
    done = console.run("run", "--image", "a.png", "what is this")
    assert done.returncode == 2
    assert "image: a.png: is none of image/png" in done.stderr
    assert console.run("sessions").stdout == ""
