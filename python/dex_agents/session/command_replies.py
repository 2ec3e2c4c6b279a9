"""The answers to commands that need no more words."""

from __future__ import annotations

from typing import Final

from dex import RPCResult

from dex_agents.wire.rpc_values import CommandReply

__all__ = ["ALREADY_DONE", "APPLIED", "SESSION_CLOSING", "invalid"]

APPLIED: Final = RPCResult(CommandReply("applied"))
ALREADY_DONE: Final = RPCResult(CommandReply("already_done"))
SESSION_CLOSING: Final = RPCResult(CommandReply("session_closing"))


def invalid(field: str, problem: str) -> RPCResult[CommandReply]:
    """Return the answer to a command that breaks a rule; nothing changed."""
    return RPCResult(CommandReply("invalid", field=field, problem=problem))
