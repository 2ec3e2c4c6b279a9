"""One call of a model client: which client, under which instructions, and what it says about the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from dex_agents import texts
from dex_agents.builtin_loop.contract import ModelClient, ModelRequest, ModelResponse
from dex_agents.builtin_loop.definition import (
    AgentDefinition,
    InstructionContext,
    find_model_client_problem,
)
from dex_agents.builtin_loop.request_images import has_images, hide_images
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import ModelCallRefusedError, RunnerContractError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.runner.outcomes import ModelCallMetadata
from dex_agents.runner.turn_context import AgentTurnContext

__all__ = [
    "SILENT_EVENTS",
    "build_instructions",
    "describe_model_call",
    "generate_response",
    "generate_with_images",
    "resolve_model",
]


_REFUSED_FOR_CONTENT: Final = frozenset({400, 404, 413, 415, 422})
"""HTTP statuses of a request that is refused for what it holds.

Routers answer 404 when no server of the model takes images.
"""


class _SilentEvents:
    """For calls that are no part of the answer that viewers follow."""

    def write_text_delta(self, text: str) -> None:
        """Drop it."""

    def write_reasoning_delta(self, text: str) -> None:
        """Drop it."""

    def write_tool_progress(self, tool_call_id: str, text: str) -> None:
        """Drop it."""


SILENT_EVENTS: Final = _SilentEvents()


def resolve_model(definition: AgentDefinition, session_settings: Mapping[str, Any]) -> ModelClient:
    """Return the model that the session's settings choose.

    Raises:
        RunnerContractError: The application's function returned something else.
    """
    if definition.resolve_model is None:
        return definition.model
    model: Any = definition.resolve_model(session_settings)
    problem = find_model_client_problem(model)
    if problem is not None:
        raise RunnerContractError(f"resolve_model returned a {type(model).__name__}: {problem}")
    return cast("ModelClient", model)


def build_instructions(definition: AgentDefinition, turn: AgentTurnContext) -> str:
    """Return the system text of a model call.

    Raises:
        RunnerContractError: The application's function returned something else than text.
    """
    instructions = definition.instructions
    if not isinstance(instructions, str):
        written: Any = instructions(
            InstructionContext(
                flow_id=turn.flow_id, turn_id=turn.turn_id, session_settings=turn.session_settings
            )
        )
        if not isinstance(written, str):
            raise RunnerContractError(f"instructions returned a {type(written).__name__}, not text")
        instructions = written
    return replace_lone_surrogates(instructions)


async def generate_response(
    model: ModelClient, request: ModelRequest, events: AgentEventWriter
) -> ModelResponse:
    """Make the call.

    Raises:
        RunnerContractError: The client returned something else than a response.
    """
    response: Any = await model.generate(request, events)
    if not isinstance(response, ModelResponse):
        raise RunnerContractError(
            f"{type(model).__name__}.generate returned a {type(response).__name__}, not a ModelResponse"
        )
    return response


async def generate_with_images(
    model: ModelClient, request: ModelRequest, events: AgentEventWriter
) -> tuple[ModelRequest, ModelResponse]:
    """Make the call, without the images if the provider refuses them.

    A model that sees nothing, or one bad image, would else refuse every later call of the session as well. A
    refused request was not answered and is not paid, so at most one answer is.

    Returns:
        The request that was answered, and the answer.

    Raises:
        ModelCallRefusedError: The provider refuses the request without images too, or not for what it holds.
    """
    try:
        return request, await generate_response(model, request, events)
    except ModelCallRefusedError as refusal:
        if refusal.status not in _REFUSED_FOR_CONTENT or not has_images(request):
            raise
        without = hide_images(request, texts.IMAGE_REFUSED)
        try:
            return without, await generate_response(model, without, events)
        except ModelCallRefusedError:
            raise refusal from None


def describe_model_call(model: ModelClient, response: ModelResponse) -> ModelCallMetadata:
    """Return who answered a call."""
    return ModelCallMetadata(
        request_model=response.request_model,
        response_model=response.response_model,
        provider_name=model.provider,
        response_id=response.response_id,
        finish_reasons=() if response.finish_reason is None else (response.finish_reason,),
    )
