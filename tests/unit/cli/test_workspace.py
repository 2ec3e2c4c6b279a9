from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dex_agents.cli.workspace import Workspace
from dex_agents.errors import ToolExecutionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "docs").mkdir(parents=True)
    (inside / "docs" / "a.md").write_text("one\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    return inside


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "docs/../../outside/secret",
        "/etc/passwd",
        "~/x",
        "link",
        "linked/secret",
        "chain",
        "..",
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(folder: Path, path: str) -> None:
    (folder / "link").symlink_to("../outside/secret")
    (folder / "linked").symlink_to(folder.parent / "outside")
    (folder / "chain").symlink_to("link")
    workspace = Workspace(str(folder))
    with pytest.raises(ToolExecutionError, match="leads out"):
        workspace.read(path, 100)
    with pytest.raises(ToolExecutionError, match="leads out"):
        workspace.write(path, b"changed")
    with pytest.raises(ToolExecutionError, match="leads out"):
        list(workspace.list_files(path))
    assert (folder.parent / "outside" / "secret").read_text() == "secret\n"


def test_a_folder_whose_name_begins_like_this_one_is_outside(folder: Path) -> None:
    (folder.parent / "inside-too").mkdir()
    with pytest.raises(ToolExecutionError, match="leads out"):
        Workspace(str(folder)).locate("../inside-too")


@pytest.mark.parametrize("path", ["", " ", "a\0b"])
def test_what_is_no_path_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(ToolExecutionError, match="is not a path"):
        Workspace(str(folder)).locate(path)


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "link").symlink_to("docs/a.md")
    workspace = Workspace(str(folder))
    assert workspace.read("link", 100) == b"one\n"
    workspace.write("link", b"two\n")
    assert (folder / "docs" / "a.md").read_text() == "two\n"
    assert (folder / "link").is_symlink()


def test_a_part_that_becomes_a_link_after_the_check_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(str(folder))
    locate = workspace.locate

    def locate_and_swap(path: str) -> object:
        place = locate(path)
        (folder / "docs").rename(folder / "old")
        (folder / "docs").symlink_to(folder.parent / "outside")
        return place

    monkeypatch.setattr(workspace, "locate", locate_and_swap)
    with pytest.raises(ToolExecutionError):
        workspace.read("docs/secret", 100)


def test_a_write_keeps_the_mode_and_makes_folders(folder: Path) -> None:
    (folder / "docs" / "a.md").chmod(0o640)
    workspace = Workspace(str(folder))
    workspace.write("docs/a.md", b"two\n")
    workspace.write("new/deep/b.md", b"three\n")
    assert stat.S_IMODE((folder / "docs" / "a.md").stat().st_mode) == 0o640
    assert (folder / "new" / "deep" / "b.md").read_bytes() == b"three\n"
    assert sorted(file.name for file in (folder / "docs").iterdir()) == ["a.md"]


def test_a_pipe_does_not_hold_the_reader(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(ToolExecutionError, match="not a file"):
        Workspace(str(folder)).read("pipe", 100)


def test_folders_of_tools_and_links_are_not_listed(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / "link").symlink_to("docs/a.md")
    assert list(Workspace(str(folder)).list_files(".")) == [("docs/a.md", 4)]
