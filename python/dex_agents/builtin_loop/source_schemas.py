"""The schemas of listed tools, compiled once for as long as they are listed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Final

from dex_agents.builtin_loop.json_schema import ArgumentSchema, SchemaProblemError
from dex_agents.builtin_loop.tool_arguments import ArgumentsProblemError, decode_tool_arguments
from dex_agents.tool_sources.listing import ListedTool

__all__ = ["SourceSchemas"]

_log: Final = logging.getLogger(__name__)


class SourceSchemas:
    """Checks the arguments of listed tools; a schema that does not compile checks nothing."""

    def __init__(self) -> None:
        # By source, tool and JSON text: a tool whose schema changed is another entry.
        self._compiled: dict[tuple[str, str, str], ArgumentSchema | None] = {}
        self._compiling = threading.Lock()

    async def keep(self, listed: Sequence[ListedTool]) -> None:
        """Compile what is new in a listing, with a warning for what cannot be, and forget what left it.

        In a thread: hundreds of schemas take a part of a second, once, and nothing else may stand still.
        """
        if self._compiled.keys() != {_key(tool) for tool in listed}:
            await asyncio.to_thread(self._replace, listed)

    def fit_arguments(self, listed: ListedTool, arguments: str) -> str:
        """Return the JSON text to run for what a model or a person wrote.

        Raises:
            ArgumentsProblemError: The arguments do not fit; the text is for the model.
        """
        decoded = decode_tool_arguments(arguments)
        schema = self._find(listed)
        problem = None if schema is None else schema.find_problem(decoded.value, text_length=len(arguments))
        if problem is not None:
            raise ArgumentsProblemError(problem)
        return decoded.text

    def _replace(self, listed: Sequence[ListedTool]) -> None:
        # Many sessions list at once when a Worker starts; one of them compiles for all.
        with self._compiling:
            self._compiled = {_key(tool): self._find(tool) for tool in listed}

    def _find(self, listed: ListedTool) -> ArgumentSchema | None:
        key = _key(listed)
        return self._compiled[key] if key in self._compiled else _compile(listed)


def _key(listed: ListedTool) -> tuple[str, str, str]:
    return listed.source_name, listed.tool.name, listed.parameters_text


def _compile(listed: ListedTool) -> ArgumentSchema | None:
    try:
        return ArgumentSchema(listed.tool.parameters)
    except SchemaProblemError as error:
        _log.warning(
            "the arguments of tool %r of source %r go unchecked, its schema cannot be used: %s",
            listed.tool.name,
            listed.source_name,
            error,
        )
        return None
