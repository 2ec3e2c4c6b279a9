"""What tools really did, counted outside the session: the witness that no crash can talk to."""

import os
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Invocation", "InvocationLog"]


class Invocation(msgspec.Struct, frozen=True):
    """One run of a tool's body.

    Attributes:
        tool_name: The tool.
        idempotency_key: The key that the body was given.
        arguments: What it was called with.
        attempt: Which attempt of the call it was, from 1.
        process_id: The process it ran in.
    """

    tool_name: str
    idempotency_key: str
    arguments: dict[str, Any]
    attempt: int
    process_id: int


class InvocationLog:
    """Counts real tool runs across processes and crashes, in an append-only file.

    It stands for the outside world, a payment provider's ledger, say: a tool's body records itself where it
    would send, and a test compares the count with what the session believes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the log; the file is made by the first record.

        Args:
            path: The file, in a folder that exists; each line is one `Invocation` as JSON.
        """
        self._path = Path(path)

    def record(
        self, tool_name: str, *, idempotency_key: str, arguments: dict[str, Any], attempt: int = 1
    ) -> Invocation:
        """Add one run.

        Args:
            tool_name: The tool.
            idempotency_key: The key it was given.
            arguments: JSON values.
            attempt: From `ToolCallContext.attempt`.

        Durability:
            On disk when this returns. A process killed before that left either the whole line or nothing.
        """
        invocation = Invocation(tool_name, idempotency_key, arguments, attempt, os.getpid())
        line = msgspec.json.encode(invocation) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # One write to a file opened for appending is not mixed with that of another process.
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return invocation

    def read(self, tool_name: str | None = None) -> tuple[Invocation, ...]:
        """Return the runs in the order in which they were recorded.

        Args:
            tool_name: Only those of this tool.

        Raises:
            msgspec.DecodeError: A line is not an `Invocation`.
        """
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return ()
        found = (msgspec.json.decode(line, type=Invocation) for line in lines)
        return tuple(one for one in found if tool_name is None or one.tool_name == tool_name)

    def count(self, tool_name: str | None = None) -> int:
        """Return how many runs there were."""
        return len(self.read(tool_name))
