"""The life of turns as a table: from which phase which move leads where; `make graph` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from dex_agents.errors import RunnerContractError
from dex_agents.wire.sessions import SessionRecord, SessionStatus
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = ["SESSION_STATUSES", "TURN_MOVES", "TurnMove", "TurnPhase", "find_turn_phase", "move_turn"]

TurnPhase = Literal["idle", "calling_model", "running_tools", "cancelling", "closed"]

TurnMove = Literal[
    "take_message",
    "compact",
    "answer",
    "give_up",
    "continue",
    "refuse_calls",
    "request_tools",
    "finish_calls",
    "fail",
    "cancel",
    "end_cancelled",
    "close",
]
"""`compact`: a summary takes the place of earlier messages before the model is called. `answer` and
`give_up`: the runner ends the turn, with an answer or with a `turn_error`. `continue`: the model is called
again. `refuse_calls`: every call of the response is final at once. `finish_calls`: every call has its final
record. `fail`: the turn ends without the answer of a model."""

TURN_MOVES: Final[Mapping[TurnPhase, Mapping[TurnMove, TurnPhase]]] = {
    "idle": {
        "take_message": "calling_model",
        "close": "closed",
    },
    "calling_model": {
        "compact": "calling_model",
        "answer": "idle",
        "give_up": "idle",
        "continue": "calling_model",
        "refuse_calls": "calling_model",
        "request_tools": "running_tools",
        "fail": "idle",
        "cancel": "cancelling",
    },
    "running_tools": {
        "finish_calls": "calling_model",
        "cancel": "cancelling",
    },
    "cancelling": {
        "end_cancelled": "idle",
    },
    "closed": {},
}

SESSION_STATUSES: Final[Mapping[TurnPhase, SessionStatus]] = {
    "idle": "idle",
    "calling_model": "running",
    "running_tools": "running",
    "cancelling": "running",
    "closed": "closed",
}
"""What the public status says in each phase."""


def find_turn_phase(record: SessionRecord, tool_calls: Iterable[AgentToolCall] = ()) -> TurnPhase:
    """Return the phase of a session that was not closed and whose turn was not asked to cancel.

    Args:
        record: The session as committed.
        tool_calls: The records of the running turn.
    """
    if record.turn is None:
        return "idle"
    # The last call's final record is the move: the Step that waits for it commits nothing of its own.
    return "calling_model" if all(call.is_final for call in tool_calls) else "running_tools"


def move_turn(phase: TurnPhase, move: TurnMove) -> TurnPhase:
    """Return the phase after a move.

    Raises:
        RunnerContractError: The table has no such move from this phase.
    """
    following = TURN_MOVES[phase].get(move)
    if following is None:
        raise RunnerContractError(f"no {move} from {phase}")
    return following
