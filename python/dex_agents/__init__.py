"""Durable AI agent sessions: one Flow run of the Dex engine is one session.

Build a Flow (`dex_agents.builtin_loop.create_builtin_agent_session_flow`), run it on an `AgentWorker`, talk
to its sessions through an `AgentSessionClient`. `dex_agents.engine.LocalEngine` is an engine in this process;
a Dex Server takes its place by its address alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

__version__ = "0.5.0"

if TYPE_CHECKING:
    from dex_agents.public_names import *  # noqa: F403
else:
    # Importing all of it takes most of a second, and a command that prints a version needs none of it.

    def __getattr__(name):
        """Return a public name or a module of the package; the first public name loads them all."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if name != "__all__" and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        public = import_module(f"{__name__}.public_names")
        try:
            value = globals()[name] = getattr(public, name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        return value

    def __dir__():
        return sorted({*globals(), *import_module(f"{__name__}.public_names").__all__})
