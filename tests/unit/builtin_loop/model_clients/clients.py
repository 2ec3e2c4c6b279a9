"""Each client, in front of a server that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, get_args

from dex_agents.builtin_loop import (
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelTool,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.testing import ModelApi, ModelServer, ModelServerAnswer

APIS: Final[tuple[ModelApi, ...]] = get_args(ModelApi)
LOOK: Final = ModelTool("look", "Look something up.", {"type": "object", "properties": {"q": {}}})
MODEL: Final = "some-model"

AnyClient = OpenAIModelClient | AnthropicModelClient


def build_client(api: ModelApi, server: ModelServer, **settings: Any) -> AnyClient:
    """Return a client of a server."""
    settings.setdefault("provider", api)
    match api:
        case "messages":
            return AnthropicModelClient(MODEL, base_url=server.anthropic_base_url, **settings)
        case "responses" | "chat_completions":
            return OpenAIModelClient(MODEL, api=api, base_url=server.openai_base_url, **settings)


@asynccontextmanager
async def talking(
    api: ModelApi, *script: ModelServerAnswer, **settings: Any
) -> AsyncGenerator[tuple[AnyClient, ModelServer], None]:
    """Run a server with a script, and yield a client of it."""
    async with ModelServer(script) as server, build_client(api, server, **settings) as client:
        yield client, server


def asking(*items: ModelInputItem, **fields: Any) -> ModelRequest:
    """Return a request: a user's text, then these items."""
    fields.setdefault("tools", (LOOK,))
    return ModelRequest("Be brief.", (ModelUserTextItem("hello"), *items), **fields)


def replaying(response: ModelResponse, *outputs: str) -> tuple[ModelInputItem, ...]:
    """Return an answer and the results of its calls, as the loop sends them in the next request."""
    results = [
        ModelToolResultItem(call.model_call_id, call.tool_name, output)
        for call, output in zip(response.tool_calls, outputs, strict=True)
    ]
    return (ModelOutputItem(response.text, response.tool_calls, response.item), *results)
