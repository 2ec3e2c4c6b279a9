"""`dex-agents graph`: the diagrams of the session's tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from dex_agents.errors import InvalidInputError

__all__ = ["render_graph"]

_HOME: Final = "dex_agents.session.state_diagrams"
_RENDERERS: Final = {
    "all": "render_state_diagrams",
    "turns": "render_turn_diagram",
    "tool-calls": "render_tool_call_diagram",
    "interrupts": "render_interrupt_diagram",
    "steps": "render_session_flow_graph",
}


def render_graph(table: str) -> str:
    """Return a diagram as Mermaid text, or the page with all of them.

    Raises:
        InvalidInputError: There is no such diagram in this version.
    """
    try:
        module = import_module(_HOME)
    except ModuleNotFoundError as error:
        if error.name != _HOME:
            raise
        raise InvalidInputError("graph", "this version has no state diagrams") from None
    render = cast("Callable[[], str]", getattr(module, _RENDERERS[table]))
    return render().rstrip()
