"""The session's tables as Mermaid diagrams: what `make graph` writes to `docs/state-diagrams.md`.

Pure: the tables decide, this only spells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from dex_agents.session.step_routes import COMMAND_ROUTES, LAST_STEP, STEP_ROUTES
from dex_agents.session.transitions.interrupts import INTERRUPT_KINDS
from dex_agents.session.transitions.tool_call_moves import TOOL_CALL_MOVES
from dex_agents.session.transitions.turn_moves import TURN_MOVES
from dex_agents.wire.tool_calls import FINAL_TOOL_CALL_STATUSES

__all__ = [
    "render_interrupt_diagram",
    "render_session_flow_graph",
    "render_state_diagrams",
    "render_tool_call_diagram",
    "render_turn_diagram",
]

StateT = TypeVar("StateT", bound=str)
MoveT = TypeVar("MoveT", bound=str)
FollowingT = TypeVar("FollowingT", bound=str)

_PAGE: Final = """\
# State diagrams

Drawn from the tables in the code by `make graph`; a test keeps this page equal to them.

## Turns

From `session/transitions/turn_moves.py`. `calling_model` and `running_tools` are one turn; nothing else runs
beside a model call.

{turns}

## Tool calls

From `session/transitions/tool_call_moves.py`: the status of a record. Of the five final statuses only
`outcome_unknown` can still change, when somebody finds out.

{tool_calls}

## Interrupts

What ends each kind of interrupt, and the status of its call then: the moves of the table above that leave a
status in which a call waits. A call that waits has exactly one open interrupt.

{interrupts}

## Steps

From `session/step_routes.py`: which Step of the session Flow leads to which. Commands are rounded.

{steps}
"""


def render_state_diagrams() -> str:
    """Return the page of all diagrams as Markdown."""
    return _PAGE.format(
        turns=_fence(render_turn_diagram()),
        tool_calls=_fence(render_tool_call_diagram()),
        interrupts=_fence(render_interrupt_diagram()),
        steps=_fence(render_session_flow_graph()),
    )


def render_turn_diagram() -> str:
    """Return the life of turns as a Mermaid state diagram."""
    return _state_diagram(
        ["[*] --> idle", *_arrows(_grouped(TURN_MOVES)), "closed --> [*]"],
    )


def render_tool_call_diagram() -> str:
    """Return the life of a tool call as a Mermaid state diagram."""
    finals = [status for status in TOOL_CALL_MOVES if status in FINAL_TOOL_CALL_STATUSES]
    return _state_diagram(
        [
            "[*] --> pending",
            *_arrows(_grouped(TOOL_CALL_MOVES)),
            *(f"{status} --> [*]" for status in finals),
        ]
    )


def render_interrupt_diagram() -> str:
    """Return what ends each kind of interrupt as a Mermaid state diagram."""
    # A poll that finds its task running ends nothing: the interrupt stays as it is.
    ends = {
        kind: {
            move: kind if following == status else following
            for move, following in TOOL_CALL_MOVES[status].items()
        }
        for status, kind in INTERRUPT_KINDS.items()
    }
    return _state_diagram([*(f"[*] --> {kind}" for kind in ends), *_arrows(_grouped(ends))])


def render_session_flow_graph() -> str:
    """Return the Steps of a session Flow and what leads from one to the other as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    lines += [f'    {command}(["{command}"]) --> {step}' for command, step in COMMAND_ROUTES.items()]
    lines += [
        f'    {step} -- "{when}" --> {following}'
        for step, routes in STEP_ROUTES.items()
        for following, when in routes.items()
    ]
    lines.append(f"    {LAST_STEP} --> ended((end))")
    return "\n".join(lines)


def _grouped(table: Mapping[StateT, Mapping[MoveT, FollowingT]]) -> dict[tuple[str, str], list[str]]:
    """Return the moves between each two states: one arrow reads better than three."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for state, moves in table.items():
        for move, following in moves.items():
            grouped.setdefault((state, following), []).append(move)
    return grouped


def _arrows(grouped: Mapping[tuple[str, str], Iterable[str]]) -> list[str]:
    return [f"{state} --> {following}: {', '.join(moves)}" for (state, following), moves in grouped.items()]


def _state_diagram(lines: Iterable[str]) -> str:
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in lines)])


def _fence(diagram: str) -> str:
    return f"```mermaid\n{diagram}\n```"
