"""The configuration of a command-line agent: read with the line of every mistake, written on first use."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from dex_agents import texts
from dex_agents.cli.agent_files import AgentFiles, write_private_file
from dex_agents.errors import DexAgentsError

__all__ = [
    "DEMO_MODEL",
    "LOCAL_TOOL_NAMES",
    "AgentConfig",
    "ConfigError",
    "find_key_variable",
    "find_model_name_problem",
    "load_config",
    "load_or_create_config",
]

DEMO_MODEL: Final = "demo"
"""The scripted model, which needs no key."""

LOCAL_TOOL_NAMES: Final = ("read_file", "list_files", "search_files", "write_file", "run_command")

_MAX_CONFIG_BYTES: Final = 256 * 1024

_TEMPLATE: Final = """\
# What `dex-agents chat` runs. Keys of model providers are read from the environment (OPENAI_API_KEY,
# ANTHROPIC_API_KEY) and never from this file.

# demo                            a scripted model that needs no key
# openai/NAME                     a model of OpenAI
# anthropic/NAME                  a model of Anthropic
# openai-compatible/NAME@URL      any server with the same interface
model: demo

instructions: |
  {instructions}

# Tools for the folder that a chat was started in. write_file and run_command ask a person first.
# run_command starts in the folder, but a command can reach whatever this user can.
tools: [read_file, list_files, search_files, write_file, run_command]

# Seconds after which run_command ends a command.
command_timeout: 120

# Model calls in one turn before the model has to answer.
max_model_calls: 50
"""


class ConfigError(DexAgentsError, ValueError):
    """A configuration file cannot be used.

    Attributes:
        path: The file.
        line: The line that is wrong, from 1.
        problem: What is wrong with it, and what is expected.
    """

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = path
        self.line = line
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """What an agent is.

    Attributes:
        model: `demo`, or a name that `model_from_name` takes.
        instructions: The system text; `""` sends none.
        tools: Names of `LOCAL_TOOL_NAMES`.
        command_timeout: Seconds that a command may run, 1 to 3,600.
        max_model_calls: Model calls in one turn, 1 to 1,000.
        digest: Names the text of the file.
    """

    model: str
    instructions: str
    tools: tuple[str, ...]
    command_timeout: int
    max_model_calls: int
    digest: str


def load_or_create_config(files: AgentFiles) -> tuple[AgentConfig, bool]:
    """Return an agent's configuration and whether it was made just now.

    Raises:
        ConfigError: The file cannot be used.
        InvalidInputError: The folder cannot be used.
    """
    files.make_config_folder()
    created = False
    if not files.config.exists():
        instructions = texts.CLI_DEFAULT_INSTRUCTIONS.replace("\n", "\n  ")
        with contextlib.suppress(FileExistsError):
            write_private_file(files.config, _TEMPLATE.format(instructions=instructions))
            created = True
    return load_config(files.config), created


def load_config(path: Path) -> AgentConfig:
    """Return the configuration in a file.

    Raises:
        ConfigError: It cannot be read, is no YAML, or holds something that is not expected.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(path, 1, f"the file cannot be read: {error.strerror}") from error
    if len(raw) > _MAX_CONFIG_BYTES:
        raise ConfigError(path, 1, f"has {len(raw)} bytes, the limit is {_MAX_CONFIG_BYTES}")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(path, line, "the file must be UTF-8 text") from None
    fields = _read_fields(path, text)
    return AgentConfig(
        model=fields.get("model", DEMO_MODEL),
        instructions=fields.get("instructions", ""),
        tools=fields.get("tools", LOCAL_TOOL_NAMES),
        command_timeout=fields.get("command_timeout", 120),
        max_model_calls=fields.get("max_model_calls", 50),
        digest=hashlib.sha256(raw).hexdigest(),
    )


def _read_fields(path: Path, text: str) -> dict[str, Any]:
    import yaml

    try:
        root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        problem = f"this is no YAML: {error.problem or error.context or 'it cannot be read'}"
        raise ConfigError(path, mark.line + 1 if mark else 1, problem) from None
    except yaml.YAMLError as error:
        raise ConfigError(path, 1, f"this is no YAML: {error}") from None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(path, _line(root), "expected `key: value` lines at the top")
    fields: dict[str, Any] = {}
    for key, value in cast("list[tuple[Any, Any]]", root.value):
        name = str(key.value)
        reader = _READERS.get(name)
        if reader is None:
            known = ", ".join(_READERS)
            raise ConfigError(path, _line(key), f"unknown key {name!r}: expected one of {known}")
        if name in fields:
            raise ConfigError(path, _line(key), f"the key {name!r} appears twice")
        try:
            fields[name] = reader(value)
        except _FieldError as error:
            raise ConfigError(path, error.line or _line(value), f"{name}: {error}") from None
    return fields


class _FieldError(ValueError):
    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _read_text(node: Any) -> str:
    if not _is_scalar(node, "str"):
        raise _FieldError("expected text")
    return str(node.value)


def _read_model(node: Any) -> str:
    name = _read_text(node).strip()
    problem = find_model_name_problem(name)
    if problem is not None:
        raise _FieldError(problem)
    return name


def find_model_name_problem(name: str) -> str | None:
    """Return what keeps a text from being the name of a model, or `None`."""
    if name == DEMO_MODEL:
        return None
    provider, _, model = name.partition("/")
    if provider in ("openai", "anthropic") and model.strip():
        return None
    # The first `@` before a URL: a name has no `://`, and a URL may have an `@` of its own.
    model, _, address = model.partition("://")
    model, _, scheme = model.rpartition("@")
    if provider != "openai-compatible" or not model.strip() or scheme not in ("http", "https") or not address:
        return f"{name!r}: expected {DEMO_MODEL}, openai/NAME, anthropic/NAME or openai-compatible/NAME@URL"
    if "@" in address.partition("/")[0]:
        # Not repeated here: the name of a session's model is kept, and shown to whoever reads the session.
        return "the URL must hold no user and no password"
    return None


def find_key_variable(model: str) -> str | None:
    """Return the environment variable without which a model cannot be called, or `None`."""
    return {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}.get(model.partition("/")[0])


def _read_tools(node: Any) -> tuple[str, ...]:
    import yaml

    expected = f"expected a list of {', '.join(LOCAL_TOOL_NAMES)}"
    if not isinstance(node, yaml.SequenceNode):
        raise _FieldError(expected)
    names: list[str] = []
    for item in cast("list[Any]", node.value):
        if not _is_scalar(item, "str") or item.value not in LOCAL_TOOL_NAMES:
            raise _FieldError(f"{item.value!r}: {expected}", _line(item))
        if item.value not in names:
            names.append(item.value)
    return tuple(names)


def _read_count(least: int, most: int) -> Callable[[Any], int]:
    def read(node: Any) -> int:
        expected = f"expected a whole number from {least} to {most}"
        if not _is_scalar(node, "int"):
            raise _FieldError(expected)
        try:
            number = int(node.value)
        except ValueError:
            raise _FieldError(expected) from None
        if not least <= number <= most:
            raise _FieldError(f"{number}: {expected}")
        return number

    return read


def _is_scalar(node: Any, kind: str) -> bool:
    import yaml

    return isinstance(node, yaml.ScalarNode) and node.tag == f"tag:yaml.org,2002:{kind}"


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "model": _read_model,
    "instructions": _read_text,
    "tools": _read_tools,
    "command_timeout": _read_count(1, 3600),
    "max_model_calls": _read_count(1, 1000),
}
