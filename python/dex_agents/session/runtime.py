"""What the Steps and RPCs of one session Flow share on a Worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from dex import Stream

from dex_agents.runner.contract import AgentFrameworkRunner
from dex_agents.session.options import AgentSessionOptions
from dex_agents.session.state import SessionRules
from dex_agents.tools.builtin import BuiltInTool, require_built_in_tools

__all__ = ["SessionRuntime", "utc_now"]


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class SessionRuntime:
    """Shared by the Steps and RPCs of a session Flow.

    Attributes:
        runner: Thinks for the sessions.
        options: What the application chose.
        events: The Flow's event Stream.
        clock: Tells the time of records.
    """

    runner: AgentFrameworkRunner
    options: AgentSessionOptions
    events: Stream[str]
    clock: Callable[[], datetime] = utc_now
    _cancel_signals: dict[str, set[asyncio.Event]] = field(default_factory=dict[str, set[asyncio.Event]])

    @cached_property
    def rules(self) -> SessionRules:
        """The options that decisions depend on."""
        return SessionRules(
            built_in_tools=frozenset(self.options.built_in_tools),
            interrupt_deadline=self.options.interrupt_deadline,
        )

    @cached_property
    def built_in_tools(self) -> tuple[BuiltInTool, ...]:
        """The tools that the session itself runs."""
        return require_built_in_tools("built_in_tools", self.options.built_in_tools)

    @contextmanager
    def cancel_signal(self, session_id: str) -> Generator[asyncio.Event, None, None]:
        """Yield an event that is set when a turn of the session is cancelled on this Worker.

        The signal is a courtesy: a call on another Worker is told by the engine when its grace has passed.
        """
        signal = asyncio.Event()
        waiting = self._cancel_signals.setdefault(session_id, set())
        waiting.add(signal)
        try:
            yield signal
        finally:
            waiting.discard(signal)
            if not waiting:
                self._cancel_signals.pop(session_id, None)

    def signal_cancel(self, session_id: str) -> None:
        """Tell the calls of a session that run on this Worker."""
        for signal in self._cancel_signals.get(session_id, ()):
            signal.set()
