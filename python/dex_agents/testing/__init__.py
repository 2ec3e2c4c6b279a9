"""What a test of durable sessions needs: processes to kill, points to kill them at, and a witness outside.

Here live an engine and Workers as processes (`EngineProcess`, `WorkerProcess`), a gate that holds their code
at an exact point (`FileGate`), a count of what tools really did (`InvocationLog`), a model that follows a
script (`ScriptedModelClient`), and a server that speaks as the providers of models do and fails on demand
(`ModelServer`). Nothing here stands in for the session or the engine: tests run the real ones. For a test
that kills nothing, `LocalEngine` and `AgentWorker` in its own process are enough.
"""

from dex_agents.builtin_loop.scripted_model import ScriptedModelClient, ScriptedModelReply, ScriptedToolCall
from dex_agents.testing.engine import EngineProcess
from dex_agents.testing.gates import FileGate
from dex_agents.testing.invocations import Invocation, InvocationLog
from dex_agents.testing.model_replies import ModelApi, ModelServerError, ModelServerReply, StreamFault
from dex_agents.testing.model_server import ModelServer, ModelServerAnswer, ModelServerRequest
from dex_agents.testing.ports import find_free_loopback_ports
from dex_agents.testing.waits import poll_until
from dex_agents.testing.workers import WorkerProcess

__all__ = [
    "EngineProcess",
    "FileGate",
    "Invocation",
    "InvocationLog",
    "ModelApi",
    "ModelServer",
    "ModelServerAnswer",
    "ModelServerError",
    "ModelServerReply",
    "ModelServerRequest",
    "ScriptedModelClient",
    "ScriptedModelReply",
    "ScriptedToolCall",
    "StreamFault",
    "WorkerProcess",
    "find_free_loopback_ports",
    "poll_until",
]
