"""Clients of the models people have, one API of one provider a module.

Here live the requests of each API and the reading of its streams, which are pure, and the clients that send
one over the provider's own SDK. No retry lives here: the Step owns those, and one attempt is one request. The
SDKs are optional and slow to import, so they are imported by the first call. Begin with `model_names`.
"""

from dex_agents.builtin_loop.model_clients.anthropic_client import AnthropicModelClient
from dex_agents.builtin_loop.model_clients.model_names import model_from_name
from dex_agents.builtin_loop.model_clients.openai_client import OpenAIModelClient

__all__ = ["AnthropicModelClient", "OpenAIModelClient", "model_from_name"]
