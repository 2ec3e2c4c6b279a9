"""What one model call of a turn leaves for the next, as `framework_run_state`."""

from __future__ import annotations

import msgspec

from dex_agents.errors import WireFormatError

__all__ = ["RunState", "decode_run_state", "encode_run_state"]


class RunState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a turn has come.

    Attributes:
        model_calls: Calls of the turn whose answer was committed.
        consecutive_continuations: Continued answers since the turn began or called a tool.
    """

    model_calls: int
    consecutive_continuations: int = 0


def decode_run_state(text: str | None) -> RunState:
    """Read the state; that of a turn's first call is `None`.

    Raises:
        WireFormatError: It is not one.
    """
    if text is None:
        return RunState(0)
    try:
        return msgspec.json.decode(text, type=RunState)
    except msgspec.MsgspecError as error:
        raise WireFormatError("BuiltinLoopRunState", str(error)) from None


def encode_run_state(state: RunState) -> str:
    """Write the state: compact JSON, without a count of continuations when there is none."""
    return msgspec.json.encode(state).decode()
