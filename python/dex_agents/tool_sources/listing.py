"""What several sources list at one moment → what can be offered; pure.

Names are taken in order: those reserved for tools that the agent has by itself, then the sources as they are
given, each in the order of its own listing. A name that is taken is not offered a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Never, cast

from dex_agents.codecs.json_text import encode_json_text
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.limits import MAX_IDENTIFIER_CHARACTERS
from dex_agents.tool_sources.contract import SourceTool
from dex_agents.wire.tool_calls import ToolEffect

__all__ = ["ListedTool", "ToolListing", "build_listing"]

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class ListedTool:
    """A tool that can be offered.

    Attributes:
        source_name: The source that listed it.
        tool: The tool as it was listed.
        description: What the model reads; writable as UTF-8 whatever was listed.
        parameters_text: The JSON text of `tool.parameters`: two schemas of one text are the same schema.
    """

    source_name: str
    tool: SourceTool
    description: str
    parameters_text: str


@dataclass(frozen=True)
class ToolListing:
    """What one model call can offer from its sources.

    Attributes:
        tools: By name, in order.
        warnings: One sentence about each tool or source that is left out.
        unreachable: Tools that a source without an answer listed before: not offered, but a call of one can
            still be deferred to it.
    """

    tools: Mapping[str, ListedTool]
    warnings: tuple[str, ...] = ()
    unreachable: Mapping[str, ListedTool] = field(default_factory=dict[str, ListedTool])


def build_listing(
    listed: Sequence[tuple[str, Sequence[SourceTool] | str]], *, reserved_names: Collection[str] = ()
) -> ToolListing:
    """Return what can be offered of what was listed.

    Args:
        listed: In order, each source's name with its tools, or with the reason why there are none.
        reserved_names: Names of the agent's own tools.
    """
    offered: dict[str, ListedTool] = {}
    warnings: list[str] = []
    for source_name, tools in listed:
        if isinstance(tools, str):
            warnings.append(f"the tools of source {source_name!r} are left out: {tools}")
            continue
        for tool in tools:
            found = _read_tool(source_name, tool)
            if isinstance(found, ListedTool):
                problem = _find_collision(tool.name, offered, reserved_names)
                if problem is None:
                    offered[tool.name] = found
                    continue
            else:
                problem = found
            name: object = getattr(tool, "name", tool)
            warnings.append(f"the tool {name!r} of source {source_name!r} is left out: {problem}")
    return ToolListing(offered, tuple(warnings))


def _find_collision(
    name: str, offered: Mapping[str, ListedTool], reserved_names: Collection[str]
) -> str | None:
    if name in reserved_names:
        return "a tool of the agent itself has this name"
    other = offered.get(name)
    return None if other is None else f"source {other.source_name!r} lists a tool of this name before it"


def _read_tool(source_name: str, tool: SourceTool) -> ListedTool | str:
    """Return the tool, or why no provider could be offered it."""
    # A source is foreign code and may list what comes from a server: its types are not taken on trust.
    raw = cast("Any", tool)
    if not isinstance(raw, SourceTool):
        return f"a {type(raw).__name__} is not a SourceTool"
    name, description, parameters = cast(
        "tuple[Any, Any, Any]", (tool.name, tool.description, tool.parameters)
    )
    if not isinstance(name, str) or _TOOL_NAME.fullmatch(name) is None:
        return "the name must match ^[a-zA-Z0-9_-]{1,64}$"
    if not isinstance(description, str):
        return "the description must be text"
    if tool.effect is not None and tool.effect not in tuple(ToolEffect):
        return f"{tool.effect!r} is no tool effect"
    reference = cast("Any", tool.reference)
    if reference is not None and not _is_storable(reference):
        return f"the reference must be text of at most {MAX_IDENTIFIER_CHARACTERS} characters"
    if not isinstance(parameters, Mapping) or cast("Mapping[str, Any]", parameters).get("type") != "object":
        return 'the parameters must be a JSON Schema with "type": "object"'
    try:
        text = encode_json_text(dict(cast("Mapping[str, Any]", parameters)), ensure_ascii=False)
        text.encode()
        # Both words are rare, in strings too: only a text that has one is read again to see which it is.
        if "NaN" in text or "Infinity" in text:
            json.loads(text, parse_constant=_refuse_constant)
    except (TypeError, ValueError, RecursionError) as error:
        return f"the parameters cannot be written as JSON: {error}"
    return ListedTool(source_name, tool, replace_lone_surrogates(description), text)


def _is_storable(reference: object) -> bool:
    return (
        isinstance(reference, str)
        and len(reference) <= MAX_IDENTIFIER_CHARACTERS
        and replace_lone_surrogates(reference) == reference
    )


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"JSON has no {constant}")
