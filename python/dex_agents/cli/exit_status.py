"""What the exit status of a command says."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""The command did what was asked; a turn was completed."""

FAILED: Final = 1
"""A turn failed, or a session could not be served."""

REFUSED: Final = 2
"""Bad usage, a broken configuration, or an engine that cannot be used: nothing was begun."""

WAITS: Final = 3
"""The turn waits on a person, and nobody can be asked here."""

NOTHING_CHANGED: Final = 4
"""Somebody decided before, or there was nothing to decide."""

CANCELLED: Final = 130
"""The turn was cancelled, or the command was interrupted."""
