from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dex_agents.cli.agent_files import AgentFiles
from dex_agents.cli.config import (
    LOCAL_TOOL_NAMES,
    ConfigError,
    find_model_name_problem,
    load_config,
    load_or_create_config,
)
from dex_agents.errors import InvalidInputError


def test_the_first_use_writes_a_file_that_can_be_read(tmp_path: Path) -> None:
    files = AgentFiles.locate(config=tmp_path / "new" / "agent.yaml")
    config, created = load_or_create_config(files)
    assert created
    assert stat.S_IMODE(files.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.config.parent.stat().st_mode) == 0o700
    assert (config.model, config.tools, config.command_timeout) == ("demo", LOCAL_TOOL_NAMES, 120)
    assert config.instructions.strip()
    assert load_or_create_config(files) == (config, False)


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("# nothing\n")
    assert load_config(path).model == "demo"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("model: demo\nmodel: demo\n", 2, "twice"),
        ("command_timeout: 0\n", 1, "from 1 to 3600"),
        ("command_timeout: 3601\n", 1, "from 1 to 3600"),
        ("command_timeout: true\n", 1, "whole number"),
        ("max_model_calls: '5'\n", 1, "whole number"),
        ("instructions: 5\n", 1, "expected text"),
        ("tools: read_file\n", 1, "a list of read_file"),
        ("tools: [5]\n", 1, "a list of read_file"),
        ("model: {a: b}\n", 1, "expected text"),
        ("a: b: c\n", 1, "no YAML"),
        ("api_key: sk-1\n", 1, "unknown key 'api_key'"),
        ("? [a]\n: b\n", 1, "unknown key"),
        ("model: &x demo\ninstructions: *y\n", 2, "no YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
    assert "sk-1" not in str(caught.value)


def test_text_that_is_no_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(b"model: demo\ninstructions: \xff\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "name", ["demo", "openai/gpt", "anthropic/c", "openai-compatible/m@http://localhost:1/v1"]
)
def test_names_of_models_that_are_taken(name: str) -> None:
    assert find_model_name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpt",
        "openai/",
        "mistral/x",
        "openai-compatible/m",
        "openai-compatible/m@host",
        "openai-compatible/m@https://u:p@host/v1",
    ],
)
def test_names_of_models_that_are_not(name: str) -> None:
    assert find_model_name_problem(name) is not None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a.b", "a" * 65])
def test_names_of_agents_that_are_no_file_names(name: str) -> None:
    with pytest.raises(InvalidInputError, match="agent"):
        AgentFiles.locate(name)


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InvalidInputError, match="others may write"):
        load_or_create_config(AgentFiles.locate(config=folder / "agent.yaml"))


def test_sockets_are_not_made_behind_a_link(tmp_path: Path) -> None:
    files = AgentFiles.locate(config=tmp_path / "agent.yaml")
    files.socket_folder.symlink_to(tmp_path)
    try:
        with pytest.raises(InvalidInputError, match="is a link"):
            files.make_socket_folder()
    finally:
        files.socket_folder.unlink()


def test_nothing_is_left_of_the_sockets_of_a_host(tmp_path: Path) -> None:
    files = AgentFiles.locate(config=tmp_path / "agent.yaml")
    files.make_socket_folder()
    assert stat.S_IMODE(files.socket_folder.stat().st_mode) == 0o700
    files.host_socket.touch()
    files.remove_sockets()
    assert not files.socket_folder.exists()


def test_sockets_have_short_paths_however_deep_the_configuration_is(tmp_path: Path) -> None:
    files = AgentFiles.locate(config=tmp_path / ("deep" * 40) / "agent.yaml")
    assert len(str(files.engine_socket)) <= 103
    assert files.engine_socket == AgentFiles.locate(config=files.config).engine_socket
