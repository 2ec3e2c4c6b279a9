"""The IDs of tool calls within one request, where each provider wants every call to have its own."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["RequestCallIds"]

_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_UNNAMED: Final = "call"


class RequestCallIds:
    """Gives each call of a request an ID that the provider takes, the model's own wherever that is possible.

    Models repeat IDs, and another provider's IDs may be too long or have characters that this one refuses.
    An ID depends on the calls before it alone, so the beginning of a longer conversation stays as it was and
    keeps its place in the provider's cache.
    """

    def __init__(self, longest: int) -> None:
        """Begin a request.

        Args:
            longest: How many characters the provider takes.
        """
        self._longest: Final = longest
        self._taken: set[str] = set()

    def assign(self, model_call_id: str) -> str:
        """Return the ID of the next call."""
        wanted = _REFUSED.sub("_", model_call_id)[: self._longest] or _UNNAMED
        assigned, number = wanted, 1
        while assigned in self._taken:
            number += 1
            suffix = f"-{number}"
            assigned = wanted[: self._longest - len(suffix)] + suffix
        self._taken.add(assigned)
        return assigned
