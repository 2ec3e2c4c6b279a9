"""What closes the transcript of a turn that could not be finished."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.state import TurnView
from dex_agents.session.transitions.messages import as_framework_message
from dex_agents.wire.messages import FrameworkMessage

__all__ = ["closing_messages"]

_log = logging.getLogger(__name__)


def closing_messages(runtime: SessionRuntime, view: TurnView, note: str) -> Sequence[FrameworkMessage]:
    """Return what closes the transcript of an unfinished turn.

    A runner that cannot say it leaves nothing: a turn must be able to end whatever it holds.
    """
    turn_messages = [as_framework_message(message) for message in view.turn_messages]
    try:
        return runtime.runner.build_unfinished_turn_messages(turn_messages, view.open_calls, note)
    except Exception:  # noqa: BLE001  # whatever a runner raises, the turn must end
        _log.exception("the runner could not close the transcript of %s", view.turn.turn_id)
        return ()
