"""`AnthropicModelClient`: the models of Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from dex_agents.builtin_loop.contract import ModelImageLimits, ModelRequest
from dex_agents.builtin_loop.model_clients.answer_stream import AnswerFold, EventStream, require_sdk
from dex_agents.builtin_loop.model_clients.anthropic_messages import MessagesFold, build_messages_request
from dex_agents.builtin_loop.model_clients.client_settings import (
    CONNECT_SECONDS,
    DEFAULT_TIMEOUT,
    NO_KEY,
    require_client_settings,
)
from dex_agents.builtin_loop.model_clients.sdk_model_client import SdkModelClient
from dex_agents.errors import ModelCallRefusedError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModelClient"]

_DEFAULT_OUTPUT_TOKENS: Final = 16_384
"""Every model since Claude 4 takes it; the API has no default of its own."""


_IMAGE_LIMITS: Final = ModelImageLimits(max_images=100, max_bytes=22_000_000)
"""The API takes requests of 32 MB: as base64 these are 29.4 MB, which leaves room for the conversation."""


class AnthropicModelClient(SdkModelClient["AsyncAnthropic"]):
    """A `ModelClient` on the official `anthropic` SDK (extra `anthropic`).

    One attempt of the Step is one request: the SDK repeats nothing. The blocks of an answer, thinking and its
    signatures included, are stored with the session and sent back unchanged.

    Example::

        AnthropicModelClient("claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 4096})
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "anthropic",
        max_output_tokens: int = _DEFAULT_OUTPUT_TOKENS,
        thinking: Mapping[str, Any] | None = None,
        prompt_caching: bool = True,
        request_fields: Mapping[str, Any] | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        sdk_client: AsyncAnthropic | None = None,
    ) -> None:
        """Name the model; the SDK is imported by the first call.

        Args:
            model: As the provider names it.
            base_url: Another server, without `/v1`. By default Anthropic, or what `ANTHROPIC_BASE_URL` says.
            api_key: By default what the SDK finds in the environment, which is never sent to a `base_url`
                that is given here.
            provider: Stored with every answer and named in errors: native output goes back to the same one
                only.
            max_output_tokens: The longest answer, thinking included.
            thinking: The API's own `thinking` field, `{"type": "adaptive"}` say; `None` sends none. It is
                left out of the requests in which the API would refuse it.
            prompt_caching: Whether to mark what the next request will begin with, so that it is read from the
                provider's cache.
            request_fields: More fields of each request. Not `stream`, nor what the session decides.
            timeout: The longest silence of the server; an answer as a whole has the session's
                `model_call_timeout`.
            sdk_client: Makes the requests instead of one made here, for Bedrock say. It is yours to close,
                and belongs to the event loop that first uses it.

        Raises:
            InvalidInputError: An argument breaks a rule; the text names it.
            ImportError: The extra `anthropic` is not installed.
        """
        require_client_settings(model, max_output_tokens, timeout, request_fields)
        require_sdk("anthropic")
        super().__init__(model, provider, timeout, sdk_client)
        self._base_url = base_url
        self._api_key = api_key
        self._max_output_tokens = max_output_tokens
        self._thinking = None if thinking is None else dict(thinking)
        self._prompt_caching = prompt_caching
        self._request_fields = dict(request_fields or {})

    @property
    def image_limits(self) -> ModelImageLimits:
        """See `LimitsImages`."""
        return _IMAGE_LIMITS

    @property
    def api(self) -> str:
        """See `ModelClient.api`."""
        return "messages"

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """See `SdkModelClient.build_request`."""
        return build_messages_request(
            request,
            model=self._model,
            max_output_tokens=self._max_output_tokens,
            thinking=self._thinking,
            prompt_caching=self._prompt_caching,
            request_fields=self._request_fields,
        )

    def _build_client(self) -> AsyncAnthropic:
        import anthropic

        if self._given is not None:
            return self._given.with_options(max_retries=0)
        problem = "there is no API key: set ANTHROPIC_API_KEY or give api_key"
        try:
            client = anthropic.AsyncAnthropic(
                api_key=NO_KEY if self._api_key is None and self._base_url is not None else self._api_key,
                base_url=self._base_url,
                max_retries=0,
                timeout=anthropic.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            )
        except anthropic.AnthropicError as error:
            raise ModelCallRefusedError(self._provider, problem) from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise ModelCallRefusedError(self._provider, problem)
        return client

    async def _post(self, client: AsyncAnthropic, body: dict[str, Any]) -> EventStream:
        from anthropic import AsyncStream

        return await client.post(
            "/v1/messages", body=body, cast_to=object, stream=True, stream_cls=AsyncStream[object]
        )

    def _build_fold(self) -> AnswerFold:
        return MessagesFold(self._provider, self._model)

    def _sdk_error(self) -> type[Exception]:
        from anthropic import AnthropicError

        return AnthropicError
