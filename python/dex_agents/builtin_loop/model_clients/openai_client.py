"""`OpenAIModelClient`: OpenAI and every server that speaks its APIs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from dex_agents.builtin_loop.contract import ModelImageLimits, ModelRequest
from dex_agents.builtin_loop.model_clients.answer_stream import AnswerFold, EventStream, require_sdk
from dex_agents.builtin_loop.model_clients.client_settings import (
    CONNECT_SECONDS,
    DEFAULT_TIMEOUT,
    NO_KEY,
    require_client_settings,
)
from dex_agents.builtin_loop.model_clients.openai_chat import ChatCompletionsFold, build_chat_request
from dex_agents.builtin_loop.model_clients.openai_responses import ResponsesFold, build_responses_request
from dex_agents.builtin_loop.model_clients.sdk_model_client import SdkModelClient
from dex_agents.errors import InvalidInputError, ModelCallRefusedError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIApi", "OpenAIModelClient"]

OpenAIApi = Literal["responses", "chat_completions"]
"""`responses` where the server has it: it alone gives reasoning back to the model that wrote it."""

_WITHOUT_REASONING: Final = ("gpt-3", "gpt-4", "gpt-5-chat", "chatgpt-")
"""Models that refuse to be asked for encrypted reasoning; all later ones have it."""


class OpenAIModelClient(SdkModelClient["AsyncOpenAI"]):
    """A `ModelClient` on the official `openai` SDK (extra `openai`).

    One attempt of the Step is one request: the SDK repeats nothing. Nothing is kept at the provider; its own
    items, encrypted reasoning included, are stored with the session and sent back unchanged.

    Example::

        OpenAIModelClient("gpt-5", request_fields={"reasoning": {"effort": "low", "summary": "auto"}})
        OpenAIModelClient("qwen3", api="chat_completions", base_url="http://localhost:8000/v1")
    """

    def __init__(
        self,
        model: str,
        *,
        api: OpenAIApi = "responses",
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        max_output_tokens: int | None = None,
        encrypted_reasoning: bool | None = None,
        images: bool = True,
        request_fields: Mapping[str, Any] | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        sdk_client: AsyncOpenAI | None = None,
    ) -> None:
        """Name the model; the SDK is imported by the first call.

        Args:
            model: As the provider names it.
            api: Which API to speak.
            base_url: Another server, `/v1` included. By default OpenAI, or what `OPENAI_BASE_URL` says.
            api_key: By default `OPENAI_API_KEY`, which is never sent to a `base_url` that is given here.
            provider: Stored with every answer and named in errors: native output goes back to the same one
                only, so servers that cannot read each other's reasoning need different names. By default
                `openai`, and `openai-compatible` with a `base_url`.
            max_output_tokens: The longest answer, reasoning included; `None` for the server's own limit.
            encrypted_reasoning: Whether to ask the Responses API for reasoning that can be sent back, and to
                send it. By default for all models but those known to refuse it.
            images: Whether the model sees images; `False` names them to it instead.
            request_fields: More fields of each request, such as `{"temperature": 0}`. Not `stream`, nor what
                the session decides.
            timeout: The longest silence of the server; an answer as a whole has the session's
                `model_call_timeout`.
            sdk_client: Makes the requests instead of one made here, for Azure say. It is yours to close, and
                belongs to the event loop that first uses it.

        Raises:
            InvalidInputError: An argument breaks a rule; the text names it.
            ImportError: The extra `openai` is not installed.
        """
        require_client_settings(model, max_output_tokens, timeout, request_fields)
        if api not in get_args(OpenAIApi):
            raise InvalidInputError("api", f"{api!r} is none of {', '.join(get_args(OpenAIApi))}")
        require_sdk("openai")
        self._api: Final[OpenAIApi] = api
        self._is_compatible = base_url is not None
        named = provider or ("openai-compatible" if self._is_compatible else "openai")
        super().__init__(model, named, timeout, sdk_client)
        self._base_url = base_url
        self._api_key = api_key
        self._max_output_tokens = max_output_tokens
        self._encrypted_reasoning = (
            not model.removeprefix("ft:").startswith(_WITHOUT_REASONING)
            if encrypted_reasoning is None
            else encrypted_reasoning
        )
        self._image_limits = ModelImageLimits() if images else ModelImageLimits(0, 0)
        self._request_fields = dict(request_fields or {})

    @property
    def image_limits(self) -> ModelImageLimits:
        """See `LimitsImages`."""
        return self._image_limits

    @property
    def api(self) -> str:
        """See `ModelClient.api`."""
        return self._api

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """See `SdkModelClient.build_request`."""
        if self._api == "responses":
            return build_responses_request(
                request,
                model=self._model,
                encrypted_reasoning=self._encrypted_reasoning,
                max_output_tokens=self._max_output_tokens,
                request_fields=self._request_fields,
            )
        return build_chat_request(
            request,
            model=self._model,
            max_output_tokens=self._max_output_tokens,
            # OpenAI's models that reason refuse the old name; many compatible servers know no other.
            limit_field="max_tokens" if self._is_compatible else "max_completion_tokens",
            request_fields=self._request_fields,
        )

    def _build_client(self) -> AsyncOpenAI:
        import openai

        if self._given is not None:
            return self._given.with_options(max_retries=0)
        try:
            return openai.AsyncOpenAI(
                api_key=NO_KEY if self._api_key is None and self._base_url is not None else self._api_key,
                base_url=self._base_url,
                max_retries=0,
                timeout=openai.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            )
        except openai.OpenAIError as error:
            problem = "there is no API key: set OPENAI_API_KEY or give api_key"
            raise ModelCallRefusedError(self._provider, problem) from error

    async def _post(self, client: AsyncOpenAI, body: dict[str, Any]) -> EventStream:
        from openai import AsyncStream

        path = "/responses" if self._api == "responses" else "/chat/completions"
        return await client.post(path, body=body, cast_to=object, stream=True, stream_cls=AsyncStream[object])

    def _build_fold(self) -> AnswerFold:
        if self._api == "responses":
            return ResponsesFold(self._provider, self._model)
        return ChatCompletionsFold(self._provider, self._model)

    def _sdk_error(self) -> type[Exception]:
        from openai import OpenAIError

        return OpenAIError
