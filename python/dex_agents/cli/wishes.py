"""What a person at a prompt wants instead of answering."""

from __future__ import annotations

__all__ = ["CancelTurn", "LeaveSession"]


class LeaveSession(Exception):  # noqa: N818  # a person's wish, no error
    """The person leaves; the session stays as it is."""


class CancelTurn(Exception):  # noqa: N818  # a person's wish, no error
    """The person wants the running turn to end."""
