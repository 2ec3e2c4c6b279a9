"""`dex-agents graph`: the diagrams of the session's tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dex_agents.session.state_diagrams import (
    render_interrupt_diagram,
    render_session_flow_graph,
    render_state_diagrams,
    render_tool_call_diagram,
    render_turn_diagram,
)

__all__ = ["render_graph"]

_RENDERERS: Final[dict[str, Callable[[], str]]] = {
    "all": render_state_diagrams,
    "turns": render_turn_diagram,
    "tool-calls": render_tool_call_diagram,
    "interrupts": render_interrupt_diagram,
    "steps": render_session_flow_graph,
}


def render_graph(table: str) -> str:
    """Return a diagram as Mermaid text, or the page with all of them.

    Args:
        table: `all`, `turns`, `tool-calls`, `interrupts` or `steps`.
    """
    return _RENDERERS[table]().rstrip()
