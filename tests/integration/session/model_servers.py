"""Whole sessions whose models are real clients in front of a server that follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, get_args

from dex_agents import AgentSessionClient
from dex_agents.builtin_loop import (
    AgentDefinition,
    FunctionTool,
    ModelClient,
    create_builtin_agent_session_flow,
)
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.testing import ModelApi, ModelServer
from tests.integration.session.desk import serve
from tests.suites.provider_requests import require_valid_request

APIS: Final[tuple[ModelApi, ...]] = get_args(ModelApi)


@asynccontextmanager
async def serve_models(
    database: Path,
    server: ModelServer,
    tools: Sequence[FunctionTool] = (),
    *,
    first: ModelApi = "responses",
    **fields: Any,
) -> AsyncGenerator[AgentSessionClient, None]:
    """Run a session's engine and Worker with a model of each API, chosen by the setting `model`.

    At the end every request that the server got is checked.
    """
    models: dict[str, OpenAIModelClient | AnthropicModelClient] = {
        "responses": OpenAIModelClient("gpt-5", base_url=server.openai_base_url),
        "chat_completions": OpenAIModelClient("x", api="chat_completions", base_url=server.openai_base_url),
        "messages": AnthropicModelClient(
            "claude",
            base_url=server.anthropic_base_url,
            thinking={"type": "enabled", "budget_tokens": 2048},
        ),
    }

    def choose(settings: Mapping[str, Any]) -> ModelClient:
        return models[settings.get("model", first)]

    definition = AgentDefinition(
        name="desk", model=models[first], resolve_model=choose, tools=tools, instructions="Help.", **fields
    )
    async with AsyncExitStack() as closing:
        for model in models.values():
            await closing.enter_async_context(model)
        flow = create_builtin_agent_session_flow(definition, "Desk")
        yield await closing.enter_async_context(serve(database, flow))
    for request in server.requests:
        require_valid_request(request.api, request.body)
